#include "core/model/synth/shape_model.h"

#include <sys/mman.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "core/base/presence.h"
#include "core/base/quote.h"
#include "core/model/checkpoint/gguf_checkpoint.h"
#include "core/model/config/model_config.h"
#include "core/model/formats/quant_format.h"
#include "core/model/synth/folder_tensors.h"
#include "core/model/synth/named_shapes.h"
#include "core/model/tensors/tensor_taker.h"

namespace tenon {
namespace {

constexpr size_t kMostConfigBytes = size_t{16} << 20;
// Before the zeros: the head begins here with a byte that is none, else a model whose head is a
// tensor of its own would look like one whose head is its embedding.
constexpr size_t kFirstPage = 4096;

DType plain_type(std::string_view format) {
  return format == "f32" ? DType::f32 : format == "f16" ? DType::f16 : DType::bf16;
}

// Pages of zeros that the system shares until somebody writes, which nobody may.
class Zeros {
 public:
  static Result<Zeros> map(size_t bytes) {
    void* made = ::mmap(nullptr, kFirstPage + bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made == MAP_FAILED) {
      return failed("there is no address space for a tensor of " + std::to_string(bytes) +
                    " bytes; raise the limit of virtual memory (ulimit -v)");
    }
    *static_cast<char*>(made) = 1;
    ::mprotect(made, kFirstPage + bytes, PROT_READ);
    return Zeros(static_cast<std::byte*>(made), kFirstPage + bytes);
  }
  Zeros(Zeros&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
  Zeros(const Zeros&) = delete;
  Zeros& operator=(const Zeros&) = delete;
  Zeros& operator=(Zeros&&) = delete;
  ~Zeros() {
    if (data_ != nullptr) ::munmap(data_, bytes_);
  }
  const std::byte* first() const { return data_; }
  const std::byte* data() const { return data_ + kFirstPage; }

 private:
  Zeros(std::byte* data, size_t bytes) : data_(data), bytes_(bytes) {}
  std::byte* data_;
  size_t bytes_;
};

class ShapeCheckpoint final : public Checkpoint {
 public:
  static Result<std::unique_ptr<ShapeCheckpoint>> make(const ModelPlan& plan,
                                                       std::string_view format) {
    std::unique_ptr<ShapeCheckpoint> made(new ShapeCheckpoint());
    const std::vector<TensorSpec> specs = list_tensors(plan);
    uint64_t most = 0;
    for (const FolderTensor& tensor : folder_tensors(plan, specs)) {
      most = std::max(most, made->add(tensor, format));
    }
    TENON_ASSIGN_OR_RETURN(Zeros zeros, Zeros::map(most));
    made->zeros_ = std::make_unique<Zeros>(std::move(zeros));
    for (auto& [name, view] : made->views_) {
      const bool head = name == made->head_;
      view.data = head ? made->zeros_->first() : made->zeros_->data();
    }
    return made;
  }

  const TensorView* find(std::string_view name) const override {
    const auto found = views_.find(name);
    return found == views_.end() ? nullptr : &found->second;
  }
  Result<const TensorView*> get(std::string_view name) const override {
    const TensorView* found = find(name);
    if (found == nullptr) return not_found("tensor " + in_quotes(name) + " is missing");
    return found;
  }
  std::vector<std::string> names() const override {
    std::vector<std::string> all;
    for (const auto& [name, view] : views_) all.push_back(name);
    return all;
  }
  std::string_view quant_format(std::string_view name) const override {
    const auto found = formats_.find(name);
    return found == formats_.end() ? std::string_view() : found->second;
  }
  void release(const TensorView&) const override {}

 private:
  // The bytes that the tensor takes.
  uint64_t add(const FolderTensor& tensor, std::string_view format) {
    const TensorSpec& spec = *tensor.spec;
    if (spec.role == Role::head && !spec.bias) head_ = tensor.name;
    TensorView view;
    view.rank = static_cast<uint8_t>(tensor.shape.size());
    std::copy(tensor.shape.begin(), tensor.shape.end(), view.shape);
    const QuantFormat* blocks = find_quant_format(format);
    const bool whole = blocks != nullptr && spec.columns > 0 && !tensor.shape.empty() &&
                       spec.role != Role::embedding && !spec.tensor->exact &&
                       tensor.shape.back() % blocks->elements == 0;
    view.dtype = plain_type(format);
    if (whole) {
      view.dtype = DType::u8;
      view.shape[view.rank - 1] = blocks->row_bytes(tensor.shape.back());
      formats_.emplace(tensor.name, format);
    }
    uint64_t elements = 1;
    for (size_t i = view.rank; i-- > 0; elements *= view.shape[i]) view.stride[i] = elements;
    views_.emplace(tensor.name, view);
    return elements * dtype_bits(view.dtype) / 8;
  }

  std::map<std::string, TensorView, std::less<>> views_;
  std::map<std::string, std::string, std::less<>> formats_;
  std::string head_;
  std::unique_ptr<Zeros> zeros_;
};

Status check_format(std::string_view format) {
  if (format == "f32" || format == "f16" || format == "bf16") return {};
  if (find_quant_format(format) != nullptr) return {};
  return invalid_argument("there is no format " + in_quotes(format) + " of weights; there are " +
                          weight_formats_text());
}

bool has_weights(const std::string& path) {
  return is_model_file(path) || is_there(path + "/model.safetensors") ||
         is_there(path + "/model.safetensors.index.json");
}

struct Described {
  std::string json;
  ModelPlan plan;
};

Result<Described> described_by_folder(const std::string& path, std::string_view as,
                                      std::string_view format) {
  const std::string file = path + "/config.json";
  TENON_ASSIGN_OR_RETURN(std::string json, read_text_file(file, kMostConfigBytes));
  if (format.empty() && json.find("\"quantization_config\"") != std::string::npos) {
    return invalid_argument(path_in_quotes(file) +
                            " has a quantization_config, and without its weights nothing says in "
                            "which format they are; name one (executor.weights = \"q4_0\")");
  }
  if (!as.empty()) {
    TENON_ASSIGN_OR_RETURN(json, read_config_as(json, as, file));
  }
  TENON_ASSIGN_OR_RETURN(ModelPlan plan, parse_model_config(json, file));
  return Described{std::move(json), std::move(plan)};
}

Result<Described> described_by_name(const std::string& path) {
  Result<PlannedShape> shape = named_shape(std::filesystem::path(path).filename().string());
  if (shape.ok()) return Described{std::move(shape->json), std::move(shape->plan)};
  if (shape.status().code() != StatusCode::not_found) return shape.take_status();
  return not_found("there is no model " + path_in_quotes(path) + ", and " +
                   message_of(shape.status()));
}

}  // namespace

Result<std::unique_ptr<Model>> open_without_weights(const std::string& path, std::string_view as,
                                                    std::string_view format) {
  if (!format.empty()) TENON_RETURN_IF_ERROR(check_format(format));
  if (is_there(path) && has_weights(path)) {
    if (format.empty()) return open_model(path, as);
    return invalid_argument(
        "executor.weights is " + in_quotes(format) + ", but " + path_in_quotes(path) +
        " has weights with formats of their own; leave it out, or name a shape");
  }
  TENON_ASSIGN_OR_RETURN(Described described, is_there(path) ? described_by_folder(path, as, format)
                                                             : described_by_name(path));
  auto model = std::make_unique<Model>();
  model->path = path;
  model->config_json = std::move(described.json);
  model->plan = std::move(described.plan);
  TENON_ASSIGN_OR_RETURN(model->checkpoint,
                         ShapeCheckpoint::make(model->plan, format.empty() ? "bf16" : format));
  TENON_RETURN_IF_ERROR(take_weights(*model));
  return model;
}

}  // namespace tenon
