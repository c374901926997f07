#include "core/model/checkpoint/checkpoint.h"

#include <cerrno>
#include <map>

#include "core/base/presence.h"
#include "core/base/quote.h"
#include "core/hub/not_a_model.h"
#include "core/model/checkpoint/safetensors.h"
#include "core/model/config/json_fields.h"
#include "core/model/tensors/tensor_values.h"

namespace tenon {
namespace {

constexpr size_t kMaxIndexBytes = size_t{256} << 20;

// A tensor of an open file. `fault` says why it has no view, empty when it has one.
struct Entry {
  TensorView view;
  std::string fault;
};
using Entries = std::map<std::string, Entry, std::less<>>;

Entry make_entry(const SafetensorsTensor& tensor, const std::byte* data) {
  Entry entry;
  const std::optional<DType> dtype = safetensors_dtype(tensor.dtype);
  if (!dtype) {
    entry.fault = "has element type " + in_quotes(tensor.dtype) + ", which cannot be read";
    return entry;
  }
  if (tensor.shape.size() > 4) {
    entry.fault = "has " + std::to_string(tensor.shape.size()) + " dimensions; at most 4 are read";
    return entry;
  }
  entry.view.data = data + tensor.begin;
  entry.view.dtype = *dtype;
  entry.view.rank = static_cast<uint8_t>(tensor.shape.size());
  uint64_t stride = 1;
  for (size_t i = tensor.shape.size(); i-- > 0;) {
    entry.view.shape[i] = tensor.shape[i];
    entry.view.stride[i] = stride;
    stride *= tensor.shape[i];
  }
  return entry;
}

class SafetensorsFile final : public Checkpoint {
 public:
  SafetensorsFile(MappedFile file, const SafetensorsHeader& header) : file_(std::move(file)) {
    const std::byte* data = file_.bytes().data() + header.data_begin;
    for (const SafetensorsTensor& tensor : header.tensors) {
      entries_.emplace(tensor.name, make_entry(tensor, data));
    }
  }

  const TensorView* find(std::string_view name) const override {
    const auto found = entries_.find(name);
    return found == entries_.end() || !found->second.fault.empty() ? nullptr : &found->second.view;
  }
  Result<const TensorView*> get(std::string_view name) const override {
    const auto found = entries_.find(name);
    const std::string where = file_.path() + ": tensor " + in_quotes(name) + " ";
    if (found == entries_.end()) return not_found(where + "is missing");
    if (!found->second.fault.empty()) return unsupported(where + found->second.fault);
    return &found->second.view;
  }
  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const auto& [name, entry] : entries_) names.push_back(name);
    return names;
  }
  void release(const TensorView& tensor) const override { file_.release(bytes_of(tensor)); }

 private:
  MappedFile file_;
  Entries entries_;
};

class ShardedCheckpoint final : public Checkpoint {
 public:
  explicit ShardedCheckpoint(std::string folder) : folder_(std::move(folder)) {}

  // Opens the shard when it is met first, and takes the tensor from it.
  Status add(const std::string& name, const std::string& shard) {
    auto& file = shards_[shard];
    if (file == nullptr) {
      TENON_ASSIGN_OR_RETURN(file, open_safetensors(folder_ + "/" + shard));
    }
    Result<const TensorView*> view = file->get(name);
    if (!view.ok() && view.status().code() == StatusCode::not_found) return view.take_status();
    homes_.emplace(name, file.get());
    return {};
  }

  const TensorView* find(std::string_view name) const override {
    const auto found = homes_.find(name);
    return found == homes_.end() ? nullptr : found->second->find(name);
  }
  Result<const TensorView*> get(std::string_view name) const override {
    const auto found = homes_.find(name);
    if (found != homes_.end()) return found->second->get(name);
    return not_found(folder_ + ": tensor " + in_quotes(name) + " is missing");
  }
  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const auto& [name, home] : homes_) names.push_back(name);
    return names;
  }
  void release(const TensorView& tensor) const override {
    // Each file lets go only of bytes that are its own.
    for (const auto& [name, file] : shards_) file->release(tensor);
  }

 private:
  std::string folder_;
  std::map<std::string, std::unique_ptr<Checkpoint>> shards_;
  std::map<std::string, const Checkpoint*, std::less<>> homes_;
};

bool is_plain_file_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
}

Result<std::unique_ptr<Checkpoint>> open_shards(const std::string& folder,
                                                const std::string& index_path) {
  TENON_ASSIGN_OR_RETURN(const std::string text, read_text_file(index_path, kMaxIndexBytes));
  Result<nlohmann::json> index = parse_json_object(text);
  if (!index.ok()) return with_context(index_path, index.status());
  const auto map = index->find("weight_map");
  if (map == index->end() || !map->is_object() || map->empty()) {
    return invalid_argument(index_path + ": no object 'weight_map'; it maps tensors to files");
  }
  auto checkpoint = std::make_unique<ShardedCheckpoint>(folder);
  for (const auto& [name, shard] : map->items()) {
    if (!shard.is_string() || !is_plain_file_name(shard.get<std::string>())) {
      return invalid_argument(index_path + ": 'weight_map' gives " + describe(shard) +
                              " for a tensor; expected the name of a file in the same folder");
    }
    TENON_RETURN_IF_ERROR(checkpoint->add(name, shard.get<std::string>()));
  }
  return std::unique_ptr<Checkpoint>(std::move(checkpoint));
}

}  // namespace

Result<std::unique_ptr<Checkpoint>> open_safetensors(const std::string& path) {
  TENON_ASSIGN_OR_RETURN(MappedFile file, MappedFile::open(path));
  Result<SafetensorsHeader> header = parse_safetensors_header(file.bytes());
  if (!header.ok()) return with_context(path, header.status());
  return std::unique_ptr<Checkpoint>(std::make_unique<SafetensorsFile>(std::move(file), *header));
}

Result<std::unique_ptr<Checkpoint>> open_safetensors_folder(const std::string& folder) {
  const std::string single = folder + "/model.safetensors";
  if (is_there(single)) return open_safetensors(single);
  const std::string index = folder + "/model.safetensors.index.json";
  if (is_there(index)) return open_shards(folder, index);
  return no_weights(folder);
}

}  // namespace tenon
