#include "core/server/grpc/grpc_server.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <deque>
#include <mutex>
#include <system_error>
#include <thread>

#include "core/base/files/mapped_file.h"
#include "core/base/quote.h"
#include "core/base/threads/start_thread.h"
#include "core/server/grpc/control_call.h"
#include "core/server/grpc/frames.h"
#include "core/server/grpc/inference_call.h"
#include "core/server/service.h"

namespace tenon::server {
namespace {

// A thread where streams are written down and their pieces sent on, one after the other.
using Pump = WorkPool;

constexpr std::string_view kGenerate = "/vllm.Inference/Generate";
constexpr std::string_view kGenerateStream = "/vllm.Inference/GenerateStream";
constexpr std::string_view kControl = "/vllm.Control/";

::grpc::StatusCode code_of(unsigned status) {
  switch (status) {
    case 400:
    case 413:
    case 415:
      return ::grpc::StatusCode::INVALID_ARGUMENT;
    case 401:
      return ::grpc::StatusCode::UNAUTHENTICATED;
    case 404:
      return ::grpc::StatusCode::NOT_FOUND;
    case 409:
      return ::grpc::StatusCode::ALREADY_EXISTS;
    case 412:
      return ::grpc::StatusCode::FAILED_PRECONDITION;
    case 429:
      return ::grpc::StatusCode::RESOURCE_EXHAUSTED;
    case 503:
      return ::grpc::StatusCode::UNAVAILABLE;
    default:
      return ::grpc::StatusCode::INTERNAL;
  }
}

std::string text_of(const ::grpc::ByteBuffer& buffer) {
  std::vector<::grpc::Slice> slices;
  std::string text;
  if (!buffer.Dump(&slices).ok()) return text;
  for (const ::grpc::Slice& slice : slices) {
    text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return text;
}

::grpc::ByteBuffer buffer_of(std::string_view bytes) {
  const ::grpc::Slice slice(bytes.data(), bytes.size());
  return {&slice, 1};
}

// "ipv4:127.0.0.1:40312" without what it begins with, as HTTP's log has it.
std::string peer_of(const std::string& peer) {
  return peer.starts_with("ipv4:") || peer.starts_with("ipv6:") ? peer.substr(5) : peer;
}

// One call, from its message to its status. Everything but the reading happens on the pump, where
// nothing else is done to it; gRPC is asked for nothing more once it was told the end.
class Call final : public ::grpc::ServerGenericBidiReactor,
                   public std::enable_shared_from_this<Call> {
 public:
  Call(::grpc::GenericCallbackServerContext& context, Service& service, std::shared_ptr<Pump> pump)
      : context_(context), service_(service), pump_(std::move(pump)) {}

  void begin() {
    self_ = shared_from_this();
    StartRead(&message_);
  }

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override {
    then([ok](Call& call) { call.written(ok); });
  }
  void OnCancel() override {
    then([](Call& call) { call.lose(); });
  }
  void OnDone() override { self_.reset(); }

  // What an Exchange is asked for, on any thread.
  void answer(http::Response response) {
    const auto kept = std::make_shared<http::Response>(std::move(response));
    then([kept](Call& call) { call.take(*kept); });
  }
  void wake() {
    then([](Call& call) { call.pull(); });
  }
  void watch(std::function<void()> gone) {
    then([gone = std::move(gone)](Call& call) {
      if (call.is_lost_) return gone();
      if (!call.is_finished_) call.gone_ = gone;
    });
  }
  void abandon() {
    then([](Call& call) {
      if (!call.is_answered_) call.finish({::grpc::StatusCode::INTERNAL, "nobody answered"});
    });
  }

 private:
  template <typename Step>
  void then(Step step) {
    pump_->post_urgent([self = shared_from_this(), step = std::move(step)] { step(*self); });
  }

  // The rest: [pump].
  void take(http::Response& response) {
    if (is_answered_ || is_finished_) return;
    is_answered_ = true;
    const bool is_good = response.status == 200;
    for (const http::Field& field : response.fields) {
      if (field.name == "X-Request-Id") tell("x-request-id", field.value, is_good);
      if (field.name == "Retry-After") tell("retry-after", field.value, is_good);
      if (field.name == "Tenon-Ignored-Fields") tell("tenon-ignored-fields", field.value, is_good);
    }
    if (!is_good) return finish({code_of(response.status), response.body});
    stream_ = response.stream;
    if (stream_ != nullptr) return pull();
    add_frames(response.body);
    end_ = ::grpc::Status::OK;
    send();
  }
  void tell(const char* name, const std::string& value, bool in_front) {
    in_front ? context_.AddInitialMetadata(name, value) : context_.AddTrailingMetadata(name, value);
  }

  // A piece is under way, or there is one more, or the end.
  void pull() {
    if (is_writing_ || is_finished_ || end_ || stream_ == nullptr) return;
    std::string bytes;
    const http::BodyStream::Next next = stream_->take(bytes);
    add_frames(bytes);
    if (next == http::BodyStream::Next::end && !end_) end_ = ::grpc::Status::OK;
    if (next == http::BodyStream::Next::broken) {
      end_ = {::grpc::StatusCode::RESOURCE_EXHAUSTED, "the answer was read too slowly"};
    }
    send();
  }
  void add_frames(std::string_view bytes) {
    while (!bytes.empty()) {
      const Frame frame = take_frame(bytes);
      if (frame.failure != 0) {
        end_ = ::grpc::Status(code_of(frame.failure), std::string(frame.bytes));
      } else {
        pieces_.push_back(buffer_of(frame.bytes));
      }
    }
  }
  void send() {
    if (is_writing_ || is_finished_) return;
    if (is_lost_) return finish(::grpc::Status::CANCELLED);
    if (!pieces_.empty()) {
      is_writing_ = true;
      return StartWrite(&pieces_.front());
    }
    if (end_) finish(*end_);
  }
  void written(bool ok) {
    is_writing_ = false;
    pieces_.pop_front();
    if (!ok) return finish(::grpc::Status::CANCELLED);
    pieces_.empty() && !end_ ? pull() : send();
  }

  // The client went away, or its deadline has passed.
  void lose() {
    is_lost_ = true;
    if (const auto gone = std::exchange(gone_, nullptr)) gone();
    send();
  }
  void finish(const ::grpc::Status& status) {
    if (is_finished_ || is_writing_) return;
    is_finished_ = true;
    gone_ = nullptr;
    stream_ = nullptr;
    Finish(status);
  }

  ::grpc::GenericCallbackServerContext& context_;
  Service& service_;
  const std::shared_ptr<Pump> pump_;
  std::shared_ptr<Call> self_;  // until gRPC is done with it
  ::grpc::ByteBuffer message_;
  std::shared_ptr<http::BodyStream> stream_;
  std::deque<::grpc::ByteBuffer> pieces_;
  std::optional<::grpc::Status> end_;  // after the last piece
  std::function<void()> gone_;
  bool is_answered_ = false;
  bool is_writing_ = false;
  bool is_lost_ = false;
  bool is_finished_ = false;
};

// The service's hold on a call.
class CallExchange final : public http::Exchange {
 public:
  explicit CallExchange(std::shared_ptr<Call> call) : call_(std::move(call)) {}
  ~CallExchange() override { call_->abandon(); }
  CallExchange(const CallExchange&) = delete;
  CallExchange& operator=(const CallExchange&) = delete;

  void answer(http::Response response) override { call_->answer(std::move(response)); }
  void wake() override { call_->wake(); }
  void watch(std::function<void()> gone) override { call_->watch(std::move(gone)); }

 private:
  const std::shared_ptr<Call> call_;
};

void Call::OnReadDone(bool ok) {
  const auto refuse = [this](::grpc::StatusCode code, const std::string& sentence) {
    then([status = ::grpc::Status(code, sentence)](Call& call) { call.finish(status); });
  };
  const std::string& method = context_.method();
  Service::CallAnswer control;
  if (method.starts_with(kControl)) {
    control = control_answer(service_, std::string_view(method).substr(kControl.size()));
  }
  if (control == nullptr && method != kGenerate && method != kGenerateStream) {
    return refuse(::grpc::StatusCode::UNIMPLEMENTED,
                  "there is no " + in_quotes(method) +
                      " here – share/tenon/vllm lists what vllm.Inference and vllm.Control have");
  }
  if (!ok) return refuse(::grpc::StatusCode::INVALID_ARGUMENT, "there is no message");
  http::Request request{.method = "POST",
                        .path = method,
                        .query = {},
                        .fields = {},
                        .body = text_of(message_),
                        .peer = peer_of(context_.peer())};
  for (const auto& [name, value] : context_.client_metadata()) {
    request.fields.push_back({{name.data(), name.size()}, {value.data(), value.size()}});
  }
  auto exchange = std::make_shared<CallExchange>(shared_from_this());
  if (control) {
    return service_.answer_for(std::move(request), std::move(exchange), std::move(control));
  }
  const bool stream = method == kGenerateStream;
  service_.generate_for(
      std::move(request), std::move(exchange),
      [stream](const std::string& bytes) { return read_inference(bytes, stream); });
}

class Calls final : public ::grpc::CallbackGenericService {
 public:
  Calls(Service& service, std::shared_ptr<Pump> pump) : service_(service), pump_(std::move(pump)) {}

  ::grpc::ServerGenericBidiReactor* CreateReactor(
      ::grpc::GenericCallbackServerContext* context) override {
    const auto call = std::make_shared<Call>(*context, service_, pump_);
    call->begin();
    return call.get();
  }

 private:
  Service& service_;
  const std::shared_ptr<Pump> pump_;
};

Result<std::shared_ptr<::grpc::ServerCredentials>> credentials_of(const GrpcOptions& options) {
  if (options.tls_certificate.empty()) return ::grpc::InsecureServerCredentials();
  ::grpc::SslServerCredentialsOptions::PemKeyCertPair pair;
  TENON_ASSIGN_OR_RETURN(pair.cert_chain, read_text_file(options.tls_certificate));
  TENON_ASSIGN_OR_RETURN(pair.private_key, read_text_file(options.tls_key));
  ::grpc::SslServerCredentialsOptions ssl;
  ssl.pem_key_cert_pairs.push_back(std::move(pair));
  return ::grpc::SslServerCredentials(ssl);
}

}  // namespace

class GrpcServer::State {
 public:
  explicit State(Service& service)
      : pump_(std::make_shared<Pump>(1, size_t{1})), calls_(service, pump_) {}
  ~State() {
    if (server_ == nullptr) return;
    drain(std::chrono::milliseconds(0));
    closing_.join();
    server_->Wait();
    server_.reset();
    pump_->stop();
  }

  Status listen(const GrpcOptions& options) {
    const bool is_v6 = options.host.find(':') != std::string::npos;
    const std::string host = is_v6 ? "[" + options.host + "]" : options.host;
    TENON_ASSIGN_OR_RETURN(const auto credentials, credentials_of(options));
    ::grpc::EnableDefaultHealthCheckService(true);
    ::grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort(host + ":" + std::to_string(options.port), credentials, &port);
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.SetMaxReceiveMessageSize(static_cast<int>(options.message_bytes));
    builder.RegisterCallbackGenericService(&calls_);
    server_ = builder.BuildAndStart();
    address_ = host + ":" + std::to_string(port);
    if (server_ != nullptr && port != 0) {
      // It knows no names of a generic service's, and callers ask for these.
      for (const char* name : {"vllm.Inference", "vllm.Control"}) {
        server_->GetHealthCheckService()->SetServingStatus(name, true);
      }
      return {};
    }
    return failed("gRPC cannot listen on " + in_quotes(host + ":" + std::to_string(options.port)) +
                  " – the address is in use, not allowed or none of this machine");
  }

  void drain(std::chrono::milliseconds limit) {
    const std::lock_guard lock(mutex_);
    if (closing_.joinable()) return;
    server_->GetHealthCheckService()->SetServingStatus(false);
    const auto close = [this, limit] {
      server_->Shutdown(std::chrono::system_clock::now() + limit);
    };
    try {
      closing_ = start_thread(close);
    } catch (const std::system_error&) {  // no further thread: the caller waits for it
      close();
    }
  }
  const std::string& address() const { return address_; }

 private:
  const std::shared_ptr<Pump> pump_;
  Calls calls_;
  std::unique_ptr<::grpc::Server> server_;
  std::string address_;
  std::mutex mutex_;
  std::thread closing_;
};

GrpcServer::GrpcServer(std::unique_ptr<State> state) : state_(std::move(state)) {}
GrpcServer::~GrpcServer() = default;

Status GrpcServer::available() {
  return {};
}

Result<std::unique_ptr<GrpcServer>> GrpcServer::open(const GrpcOptions& options, Service& service) {
  auto state = std::make_unique<State>(service);
  TENON_RETURN_IF_ERROR(state->listen(options));
  return std::unique_ptr<GrpcServer>(new GrpcServer(std::move(state)));
}

void GrpcServer::drain(std::chrono::milliseconds limit) {
  state_->drain(limit);
}

const std::string& GrpcServer::address() const {
  return state_->address();
}

}  // namespace tenon::server
