#include "core/model/convert/gguf_writer.h"

#include <algorithm>

#include "core/base/files/new_file.h"
#include "core/base/presence.h"
#include "core/base/quote.h"
#include "core/files/gguf_parts.h"

namespace tenon {
namespace {

using Tensors = std::span<const GgufPlannedTensor>;

constexpr uint64_t kAlignment = 32;
constexpr size_t kMostParts = 65535;  // what the keys of parts can count

uint64_t aligned(uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

template <typename T>
void put(T value, std::string& out) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

uint64_t row_bytes(const GgufPlannedTensor& tensor) {
  const TensorType& type = *find_tensor_type(tensor.type);
  return tensor.extents.back() / type.block_elements * type.block_bytes;
}

uint64_t row_count(const GgufPlannedTensor& tensor) {
  uint64_t rows = 1;
  for (size_t i = 0; i + 1 < tensor.extents.size(); ++i) rows *= tensor.extents[i];
  return rows;
}

uint64_t stored_bytes(const GgufPlannedTensor& tensor) {
  return aligned(row_count(tensor) * row_bytes(tensor));
}

std::string make_header(const GgufMetadata& metadata, Tensors tensors) {
  std::string out = "GGUF";
  put<uint32_t>(3, out);
  put<uint64_t>(tensors.size(), out);
  put<uint64_t>(metadata.count(), out);
  out += metadata.bytes();
  uint64_t offset = 0;
  for (const GgufPlannedTensor& tensor : tensors) {
    put<uint64_t>(tensor.name.size(), out);
    out += tensor.name;
    put(static_cast<uint32_t>(tensor.extents.size()), out);
    for (size_t i = tensor.extents.size(); i-- > 0;) put<uint64_t>(tensor.extents[i], out);
    put(tensor.type, out);
    put(offset, out);
    offset += stored_bytes(tensor);
  }
  out.resize(aligned(out.size()), '\0');
  return out;
}

// Which tensors go into which part, in their order. No part is empty.
std::vector<Tensors> cut(Tensors tensors, const GgufSplit& split) {
  std::vector<Tensors> parts;
  size_t begin = 0;
  uint64_t bytes = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const uint64_t own = stored_bytes(tensors[i]);
    const bool full = (split.max_bytes > 0 && bytes + own > split.max_bytes) ||
                      (split.tensors > 0 && i - begin == split.tensors);
    if (full && i > begin) {
      parts.push_back(tensors.subspan(begin, i - begin));
      begin = i;
      bytes = 0;
    }
    bytes += own;
  }
  parts.push_back(tensors.subspan(begin));
  return parts;
}

Status write_file_of(const std::string& path, const GgufMetadata& metadata, Tensors tensors,
                     const WriteProgress& progress) {
  const std::string header = make_header(metadata, tensors);
  std::vector<PlacedRows> placed;
  uint64_t offset = header.size();
  for (const GgufPlannedTensor& tensor : tensors) {
    placed.push_back({offset, row_count(tensor), row_bytes(tensor), &tensor.fill});
    offset += stored_bytes(tensor);
  }
  return write_tensor_file(path, header, placed, offset, progress);
}

Result<std::vector<std::string>> names_of_parts(const std::string& path, size_t parts) {
  if (parts > kMostParts) {
    return invalid_argument("the model would become " + std::to_string(parts) +
                            " parts; there are at most " + std::to_string(kMostParts) +
                            ", let each have more");
  }
  constexpr std::string_view kEnding = ".gguf";
  const bool ends = path.ends_with(kEnding);
  const std::string prefix = ends ? path.substr(0, path.size() - kEnding.size()) : path;
  return gguf_part_paths(GgufPartName{prefix, 1, static_cast<uint32_t>(parts)}.path());
}

// The keys by which parts know each other; the first part has the model's own before them.
GgufMetadata metadata_of_part(const GgufMetadata& model, size_t part, size_t parts,
                              size_t tensors) {
  GgufMetadata metadata;
  if (part == 0) metadata.append(model);
  metadata.add_short("split.no", static_cast<uint16_t>(part));
  metadata.add_integer("split.tensors.count", static_cast<int32_t>(tensors));
  metadata.add_short("split.count", static_cast<uint16_t>(parts));
  return metadata;
}

// All parts, or none.
Status write_parts(const std::vector<std::string>& files, const GgufMetadata& metadata,
                   Tensors tensors, const std::vector<Tensors>& parts,
                   const WriteProgress& progress) {
  std::vector<UnfinishedPath> written;
  written.reserve(parts.size());
  uint64_t total = 0, before = 0;
  for (const GgufPlannedTensor& tensor : tensors) total += stored_bytes(tensor);
  for (size_t i = 0; i < parts.size(); ++i) {
    const GgufMetadata own = metadata_of_part(metadata, i, parts.size(), tensors.size());
    const WriteProgress report = [&](uint64_t done, uint64_t) {
      if (progress) progress(std::min(before + done, total), total);
    };
    TENON_RETURN_IF_ERROR(write_file_of(files[i], own, parts[i], report));
    written.emplace_back(files[i]);
    for (const GgufPlannedTensor& tensor : parts[i]) before += stored_bytes(tensor);
  }
  for (UnfinishedPath& part : written) part.keep();
  return {};
}

}  // namespace

Result<std::vector<std::string>> write_gguf(const std::string& path, const GgufMetadata& metadata,
                                            Tensors tensors, const WriteProgress& progress,
                                            const GgufSplit& split) {
  if (!split.wanted()) {
    TENON_RETURN_IF_ERROR(write_file_of(path, metadata, tensors, progress));
    return std::vector<std::string>{path};
  }
  const std::vector<Tensors> parts = cut(tensors, split);
  TENON_ASSIGN_OR_RETURN(std::vector<std::string> files, names_of_parts(path, parts.size()));
  for (const std::string& file : files) {
    if (!is_there(file)) continue;
    return invalid_argument(path_in_quotes(file) +
                            " is already there; choose another name, or remove it first");
  }
  TENON_RETURN_IF_ERROR(write_parts(files, metadata, tensors, parts, progress));
  return files;
}

}  // namespace tenon
