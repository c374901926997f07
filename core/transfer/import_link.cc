#include "core/transfer/import_link.h"

#include <utility>

#include "core/base/threads/start_thread.h"

namespace tenon {

ImportLink::ImportLink(std::shared_ptr<KvTransport> transport, std::string address,
                       std::string world, uint64_t most_bytes, int64_t silence_ns,
                       Listener listener)
    : transport_(std::move(transport)),
      address_(std::move(address)),
      world_(std::move(world)),
      most_bytes_(most_bytes),
      silence_ns_(silence_ns),
      listener_(std::move(listener)) {
  sender_ = start_thread([this] { run(); });
}

ImportLink::~ImportLink() {
  shut_down();
  sender_.join();
}

void ImportLink::shut_down() {
  const std::lock_guard lock(mutex_);
  stop_ = true;
  if (stream_ != nullptr) stream_->shut_down();
  work_there_.notify_all();
}

bool ImportLink::is_broken() const {
  const std::lock_guard lock(mutex_);
  return broken_ || stop_;
}
bool ImportLink::is_over() const {
  const std::lock_guard lock(mutex_);
  return over_;
}

void ImportLink::send(Frame frame) {
  const std::lock_guard lock(mutex_);
  if (broken_ || stop_) return;
  frames_.push_back(std::move(frame));
  work_there_.notify_one();
}

Status ImportLink::connect() {
  TENON_ASSIGN_OR_RETURN(std::unique_ptr<KvStream> stream,
                         transport_->connect(address_, silence_ns_));
  {
    const std::lock_guard lock(mutex_);
    stream_ = std::move(stream);
    if (stop_) return failed("shut down");
  }
  Frame hello;
  hello.block = kTakesParts;
  hello.payload = text_payload(world_);
  TENON_RETURN_IF_ERROR(write_frame(*stream_, hello));
  TENON_ASSIGN_OR_RETURN(const Frame answer, read_frame(*stream_, most_bytes_));
  if (answer.kind == FrameKind::welcome) return {};
  if (answer.kind != FrameKind::refused) return invalid_argument("it does not greet");
  return unsupported("its K/V are others: " + read_text(answer.payload));
}

Status ImportLink::read_all() {
  while (true) {
    TENON_ASSIGN_OR_RETURN(Frame frame, read_frame(*stream_, most_bytes_));
    listener_.on_frame(*this, std::move(frame));
  }
}

Status ImportLink::send_all() {
  while (true) {
    Frame frame;
    {
      std::unique_lock lock(mutex_);
      work_there_.wait(lock, [this] { return stop_ || broken_ || !frames_.empty(); });
      if (stop_) return failed("shut down");
      if (broken_) return failed("broken");
      frame = std::move(frames_.front());
      frames_.pop_front();
    }
    TENON_RETURN_IF_ERROR(write_frame(*stream_, frame));
  }
}

void ImportLink::break_off(const Status& why) {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(broken_, true)) return;
    if (stream_ != nullptr) stream_->shut_down();
    frames_.clear();
    work_there_.notify_all();
  }
  listener_.on_broken(*this, why);
}

void ImportLink::run() {
  Status status = connect();
  if (status.ok()) {
    try {
      reader_ = start_thread([this] { break_off(read_all()); });
      status = send_all();
    } catch (const std::system_error& error) {
      status = failed(error.what());
    }
  }
  break_off(status);
  if (reader_.joinable()) reader_.join();
  const std::lock_guard lock(mutex_);
  over_ = true;
}

}  // namespace tenon
