#include "core/files/gguf.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <map>
#include <set>

#include "core/base/quote.h"
#include "core/files/git_lfs.h"

namespace tenon {
namespace {

static_assert(std::endian::native == std::endian::little, "values are copied as they are stored");

constexpr uint64_t kLongestName = 65535;
constexpr uint64_t kLargestAlignment = uint64_t{1} << 20;
constexpr uint32_t kDeepestArray = 4;
constexpr uint32_t kMostExtents = 4;

Status cut_off(uint64_t at, uint64_t wanted, uint64_t left) {
  return invalid_argument("is cut off: at byte " + std::to_string(at) + " it needs " +
                          std::to_string(wanted) + " more bytes but has " + std::to_string(left) +
                          "; fetch it again");
}

// Reads forward; every read is checked against the end.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  uint64_t at() const { return at_; }
  uint64_t left() const { return bytes_.size() - at_; }
  void set_length_bytes(uint32_t bytes) { length_bytes_ = bytes; }
  uint32_t length_bytes() const { return length_bytes_; }

  Result<std::span<const std::byte>> take(uint64_t count) {
    if (count > left()) return cut_off(at_, count, left());
    const auto part = bytes_.subspan(at_, count);
    at_ += count;
    return part;
  }
  Result<uint64_t> number(uint32_t bytes) {
    TENON_ASSIGN_OR_RETURN(const auto part, take(bytes));
    uint64_t value = 0;
    std::memcpy(&value, part.data(), bytes);
    return value;
  }
  // A count or a length: 64 bits, or 32 in version 1.
  Result<uint64_t> length() { return number(length_bytes_); }
  // How many items of at least `item_bytes` follow.
  Result<uint64_t> count(uint64_t item_bytes, std::string_view what) {
    TENON_ASSIGN_OR_RETURN(const uint64_t value, length());
    if (value <= left() / item_bytes) return value;
    return invalid_argument("announces " + std::to_string(value) + " " + std::string(what) +
                            ", more than its " + std::to_string(left()) +
                            " remaining bytes can hold; it is damaged or cut off");
  }
  Result<std::string_view> text() {
    TENON_ASSIGN_OR_RETURN(const uint64_t bytes, length());
    TENON_ASSIGN_OR_RETURN(const auto part, take(bytes));
    return std::string_view(reinterpret_cast<const char*>(part.data()), part.size());
  }
  Result<std::string> name(std::string_view what) {
    TENON_ASSIGN_OR_RETURN(const std::string_view found, text());
    if (!found.empty() && found.size() <= kLongestName) return std::string(found);
    return invalid_argument("has a " + std::string(what) + " of " + std::to_string(found.size()) +
                            " bytes; names have 1 to " + std::to_string(kLongestName));
  }

 private:
  std::span<const std::byte> bytes_;
  uint64_t at_ = 0;
  uint32_t length_bytes_ = 8;
};

// Bytes of a value of fixed size; 0 for texts, arrays and unknown types.
uint32_t fixed_bytes(uint64_t type) {
  constexpr uint32_t kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return type < std::size(kBytes) ? kBytes[type] : 0;
}

// Steps over `count` elements of a type.
Status skip(Reader& reader, uint64_t type, uint64_t count, uint32_t depth) {
  if (const uint32_t each = fixed_bytes(type); each > 0) {
    if (count > reader.left() / each) return cut_off(reader.at(), count, reader.left());
    return reader.take(count * each).take_status();
  }
  for (uint64_t i = 0; i < count; ++i) {
    if (type == static_cast<uint64_t>(GgufType::text)) {
      TENON_ASSIGN_OR_RETURN(const std::string_view text, reader.text());
      (void)text;
      continue;
    }
    if (depth >= kDeepestArray) {
      return unsupported("has arrays nested deeper than " + std::to_string(kDeepestArray));
    }
    TENON_ASSIGN_OR_RETURN(const uint64_t inner, reader.number(4));
    if (fixed_bytes(inner) == 0 && inner != 8 && inner != 9) {
      return invalid_argument("has an array of the unknown value type " + std::to_string(inner));
    }
    TENON_ASSIGN_OR_RETURN(const uint64_t items, reader.length());
    TENON_RETURN_IF_ERROR(skip(reader, inner, items, depth + 1));
  }
  return {};
}

Result<GgufValue> read_value(Reader& reader, std::span<const std::byte> file) {
  TENON_ASSIGN_OR_RETURN(uint64_t type, reader.number(4));
  const bool is_array = type == static_cast<uint64_t>(GgufType::array);
  uint64_t count = 1;
  if (is_array) {
    TENON_ASSIGN_OR_RETURN(type, reader.number(4));
    TENON_ASSIGN_OR_RETURN(count, reader.length());
  }
  if (type > static_cast<uint64_t>(GgufType::f64)) {
    return invalid_argument("has the unknown value type " + std::to_string(type));
  }
  const uint64_t begin = reader.at();
  TENON_RETURN_IF_ERROR(skip(reader, type, count, 1));
  return GgufValue(static_cast<GgufType>(type), count, file.subspan(begin, reader.at() - begin),
                   reader.length_bytes(), is_array);
}

// a · b, or nothing on overflow.
std::optional<uint64_t> times(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

Result<uint64_t> byte_size(const GgufTensor& tensor, const TensorType& type) {
  const std::string name = "tensor " + in_quotes(tensor.name);
  if (tensor.extents.back() % type.block_elements != 0) {
    return invalid_argument(name + " has rows of " + std::to_string(tensor.extents.back()) +
                            " elements; " + std::string(type.name) + " stores blocks of " +
                            std::to_string(type.block_elements));
  }
  std::optional<uint64_t> total =
      times(tensor.extents.back() / type.block_elements, type.block_bytes);
  for (size_t i = 0; i + 1 < tensor.extents.size() && total; ++i) {
    total = times(*total, tensor.extents[i]);
  }
  if (total && *total <= std::numeric_limits<uint64_t>::max() / 8) return *total;
  return invalid_argument(name + " has a shape of more bytes than exist");
}

Result<GgufTensor> read_tensor(Reader& reader, uint32_t extent_bytes) {
  GgufTensor tensor;
  TENON_ASSIGN_OR_RETURN(tensor.name, reader.name("tensor name"));
  const std::string name = "tensor " + in_quotes(tensor.name);
  TENON_ASSIGN_OR_RETURN(const uint64_t extents, reader.number(4));
  if (extents == 0 || extents > kMostExtents) {
    return invalid_argument(name + " has " + std::to_string(extents) +
                            " dimensions; there are 1 to " + std::to_string(kMostExtents));
  }
  std::optional<uint64_t> elements = 1;
  for (uint64_t i = 0; i < extents; ++i) {
    TENON_ASSIGN_OR_RETURN(const uint64_t extent, reader.number(extent_bytes));
    if (extent == 0) return invalid_argument(name + " has a dimension of 0");
    tensor.extents.insert(tensor.extents.begin(), extent);
    if (elements) elements = times(*elements, extent);
  }
  if (!elements) return invalid_argument(name + " has more elements than exist");
  TENON_ASSIGN_OR_RETURN(const uint64_t type, reader.number(4));
  tensor.type = static_cast<uint32_t>(type);
  TENON_ASSIGN_OR_RETURN(tensor.begin, reader.number(8));
  if (const TensorType* known = find_tensor_type(tensor.type)) {
    TENON_ASSIGN_OR_RETURN(tensor.bytes, byte_size(tensor, *known));
  }
  return tensor;
}

// From offsets into the data to offsets into the file, each inside of it, none over another.
Status place(std::vector<GgufTensor>& tensors, uint64_t data_begin, uint64_t alignment,
             uint64_t file_bytes) {
  const uint64_t room = file_bytes > data_begin ? file_bytes - data_begin : 0;
  for (GgufTensor& tensor : tensors) {
    const std::string name = "tensor " + in_quotes(tensor.name);
    if (tensor.begin % alignment != 0) {
      return invalid_argument(name + " begins at byte " + std::to_string(tensor.begin) +
                              " of the data, which is no multiple of the alignment " +
                              std::to_string(alignment));
    }
    const uint64_t bytes = tensor.bytes.value_or(0);
    if (data_begin > file_bytes || tensor.begin > room || bytes > room - tensor.begin) {
      return invalid_argument(name + " needs " + std::to_string(bytes) + " bytes from byte " +
                              std::to_string(tensor.begin) + " of the data, which has " +
                              std::to_string(room) + "; the file is cut off, fetch it again");
    }
    tensor.begin += data_begin;
  }
  std::ranges::stable_sort(tensors, {}, &GgufTensor::begin);
  for (size_t i = 1; i < tensors.size(); ++i) {
    const GgufTensor& before = tensors[i - 1];
    if (before.begin + before.bytes.value_or(0) <= tensors[i].begin) continue;
    return invalid_argument("tensors " + in_quotes(before.name) + " and " +
                            in_quotes(tensors[i].name) + " overlap");
  }
  return {};
}

Result<uint32_t> read_version(Reader& reader, std::span<const std::byte> bytes) {
  if (!GgufFile::has_magic(bytes)) {
    TENON_RETURN_IF_ERROR(check_no_git_lfs_pointer(bytes));
    return invalid_argument("does not begin with 'GGUF'; this is no GGUF file");
  }
  TENON_RETURN_IF_ERROR(reader.take(4).take_status());
  TENON_ASSIGN_OR_RETURN(const uint64_t version, reader.number(4));
  if (version >= 1 && version <= 3) return static_cast<uint32_t>(version);
  // A version in the upper half is a small one read from the wrong end.
  if (version != 0 && (version & 0xffff) == 0) {
    return unsupported("is a big-endian GGUF file; only little-endian ones are read");
  }
  return unsupported("has GGUF version " + std::to_string(version) +
                     "; versions 1, 2 and 3 are read");
}

Result<uint64_t> alignment_of(const GgufValue* value) {
  if (value == nullptr) return uint64_t{32};
  const std::optional<int64_t> given = value->integer();
  if (given && *given >= 8 && *given % 8 == 0 &&
      *given <= static_cast<int64_t>(kLargestAlignment)) {
    return static_cast<uint64_t>(*given);
  }
  return invalid_argument("'general.alignment' is " + value->describe() +
                          "; expected a multiple of 8 up to " + std::to_string(kLargestAlignment));
}

}  // namespace

bool GgufFile::has_magic(std::span<const std::byte> bytes) {
  return bytes.size() >= 4 && std::memcmp(bytes.data(), "GGUF", 4) == 0;
}

Result<GgufFile> GgufFile::parse(std::span<const std::byte> bytes) try {
  Reader reader(bytes);
  GgufFile file;
  TENON_ASSIGN_OR_RETURN(file.version_, read_version(reader, bytes));
  const uint32_t wide = file.version_ == 1 ? 4 : 8;
  reader.set_length_bytes(wide);
  // The shortest tensor and pair: a name of one byte, and what must follow.
  TENON_ASSIGN_OR_RETURN(const uint64_t tensors,
                         reader.count(wide + 1 + 4 + wide + 4 + 8, "tensors"));
  TENON_ASSIGN_OR_RETURN(const uint64_t pairs, reader.count(wide + 1 + 4 + 1, "metadata values"));
  for (uint64_t i = 0; i < pairs; ++i) {
    TENON_ASSIGN_OR_RETURN(std::string key, reader.name("metadata key"));
    Result<GgufValue> value = read_value(reader, bytes);
    if (!value.ok()) return with_context("metadata " + in_quotes(key), value.status());
    file.metadata_.emplace_back(std::move(key), *value);
  }
  const auto key_of = [](const auto& pair) -> const std::string& { return pair.first; };
  std::ranges::sort(file.metadata_, {}, key_of);
  const auto twice = std::ranges::adjacent_find(file.metadata_, {}, key_of);
  if (twice != file.metadata_.end()) {
    return invalid_argument("has the metadata key " + in_quotes(twice->first) + " twice");
  }
  TENON_ASSIGN_OR_RETURN(file.alignment_, alignment_of(file.find("general.alignment")));
  std::set<std::string_view> names;
  file.tensors_.reserve(tensors);
  for (uint64_t i = 0; i < tensors; ++i) {
    TENON_ASSIGN_OR_RETURN(GgufTensor tensor, read_tensor(reader, wide));
    file.tensors_.push_back(std::move(tensor));
    const std::string& name = file.tensors_.back().name;
    if (!names.insert(name).second) {
      return invalid_argument("has the tensor " + in_quotes(name) + " twice");
    }
  }
  const uint64_t padding = (file.alignment_ - reader.at() % file.alignment_) % file.alignment_;
  TENON_RETURN_IF_ERROR(place(file.tensors_, reader.at() + padding, file.alignment_, bytes.size()));
  return file;
} catch (const std::exception& error) {
  return failed(std::string("cannot be read: ") + error.what());
}

Result<GgufFile> GgufFile::join(std::vector<GgufFile> parts) {
  GgufFile joined;
  std::map<std::string_view, size_t> part_of;
  for (size_t part = 0; part < parts.size(); ++part) {
    for (const GgufTensor& tensor : parts[part].tensors_) {
      const auto [known, is_new] = part_of.emplace(tensor.name, part);
      if (is_new) continue;
      return invalid_argument("parts " + std::to_string(known->second + 1) + " and " +
                              std::to_string(part + 1) + " of the model both have the tensor " +
                              in_quotes(tensor.name) +
                              "; each stands in one part, so one of them is of another model");
    }
  }
  part_of.clear();
  for (size_t part = 0; part < parts.size(); ++part) {
    for (GgufTensor& tensor : parts[part].tensors_) {
      tensor.part = static_cast<uint32_t>(part);
      joined.tensors_.push_back(std::move(tensor));
    }
  }
  joined.version_ = parts.front().version_;
  joined.alignment_ = parts.front().alignment_;
  joined.metadata_ = std::move(parts.front().metadata_);
  return joined;
}

const GgufValue* GgufFile::find(std::string_view key) const {
  const auto found = std::ranges::lower_bound(
      metadata_, key, {}, [](const auto& pair) -> std::string_view { return pair.first; });
  return found == metadata_.end() || found->first != key ? nullptr : &found->second;
}

}  // namespace tenon
