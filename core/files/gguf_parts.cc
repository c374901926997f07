#include "core/files/gguf_parts.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "core/base/presence.h"
#include "core/base/quote.h"

namespace tenon {
namespace {

constexpr const char* kNumber = "split.no";
constexpr const char* kCount = "split.count";
constexpr const char* kTensors = "split.tensors.count";
constexpr int64_t kMostParts = 65535;  // the keys have 16 bits

std::string part_of(uint64_t number, uint64_t count) {
  return "part " + std::to_string(number) + " of " + std::to_string(count);
}

// "-00002-of-00003.gguf"
std::string part_ending(uint32_t number, uint32_t count) {
  char text[64];
  std::snprintf(text, sizeof(text), "-%05u-of-%05u.gguf", number, count);
  return text;
}

bool all_digits(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

Result<std::optional<int64_t>> whole_number_of(const GgufFile& file, const char* key) {
  const GgufValue* value = file.find(key);
  if (value == nullptr) return std::optional<int64_t>();
  const std::optional<int64_t> number = value->integer();
  if (number && *number >= 0) return number;
  return invalid_argument(in_quotes(key) + " is " + value->describe() +
                          "; expected a whole number from 0 on; fetch the file again");
}

struct Part {
  MappedFile mapped;
  GgufFile file;
};

Result<Part> open_part(const std::string& path) {
  TENON_ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::open(path));
  Result<GgufFile> file = GgufFile::parse(mapped.bytes());
  if (!file.ok()) return with_context(path, file.status());
  return Part{std::move(mapped), *std::move(file)};
}

bool same_value(const GgufValue& a, const GgufValue& b) {
  return a.is_array() == b.is_array() && a.type() == b.type() && a.count() == b.count() &&
         std::ranges::equal(a.payload(), b.payload());
}

// How many parts a file says that its model has; 1 where it is whole.
Result<uint32_t> count_of(const GgufFile& file) {
  TENON_ASSIGN_OR_RETURN(const auto count, whole_number_of(file, kCount));
  TENON_ASSIGN_OR_RETURN(const auto number, whole_number_of(file, kNumber));
  if (!count && number) {
    return invalid_argument("is part " + std::to_string(*number + 1) + " of a model (" + kNumber +
                            "), but does not say of how many; expected the key '" + kCount +
                            "'; fetch it again");
  }
  if (count.value_or(1) <= kMostParts) {
    return static_cast<uint32_t>(std::max<int64_t>(1, count.value_or(1)));
  }
  return invalid_argument(in_quotes(kCount) + " is " + std::to_string(*count) +
                          "; there are at most " + std::to_string(kMostParts) + " parts");
}

// Holds each part against its name, and against the first one.
class PartCheck {
 public:
  explicit PartCheck(const GgufPartName& name) : name_(name) {}

  Status check(const GgufFile& part, const GgufFile& first) const {
    TENON_ASSIGN_OR_RETURN(const auto number, whole_number_of(part, kNumber));
    TENON_ASSIGN_OR_RETURN(const uint32_t count, count_of(part));
    if (!number || *number + 1 != name_.number || count != name_.count) {
      const std::string says =
          !number ? "does not say which part it is (" + std::string(kNumber) + ")"
                  : "says that it is " + part_of(static_cast<uint64_t>(*number) + 1, count) + " (" +
                        kNumber + " " + std::to_string(*number) + ", " + kCount + " " +
                        std::to_string(count) + ")";
      return invalid_argument(says + "; by its name it is " + part_of(name_.number, name_.count) +
                              "; fetch it again, or give it its own name");
    }
    for (const auto& [key, value] : part.metadata()) {
      const bool is_own = key == kNumber || key == "general.alignment";
      const GgufValue* expected = is_own ? nullptr : first.find(key);
      if (expected == nullptr || same_value(value, *expected)) continue;
      return invalid_argument(in_quotes(key) + " is " + value.describe() + "; in part 1 it is " +
                              expected->describe() +
                              "; this is a part of another model, fetch the one that belongs here");
    }
    return {};
  }

 private:
  const GgufPartName& name_;
};

// The name by which the other parts are found.
Result<GgufPartName> named_part(const std::string& path, const GgufFile& file, uint32_t count) {
  TENON_ASSIGN_OR_RETURN(const auto number, whole_number_of(file, kNumber));
  std::optional<GgufPartName> name = gguf_part_name(path);
  if (name) return *std::move(name);
  const auto own = static_cast<uint32_t>(number.value_or(0) + 1);
  return invalid_argument("is " + part_of(own, count) +
                          " of a model; expected a name that ends in " + part_ending(own, count) +
                          ", by which the other parts are found; give it that name");
}

Status check_tensors(const std::vector<Part>& parts) {
  TENON_ASSIGN_OR_RETURN(const auto expected, whole_number_of(parts.front().file, kTensors));
  uint64_t found = 0;
  std::string each;
  for (const Part& part : parts) {
    found += part.file.tensors().size();
    each += (each.empty() ? "" : " + ") + std::to_string(part.file.tensors().size());
  }
  if (expected && static_cast<uint64_t>(*expected) == found) return {};
  return invalid_argument(in_quotes(kTensors) +
                          (expected ? " is " + std::to_string(*expected) : " is missing") +
                          "; the " + std::to_string(parts.size()) + " parts have " + each +
                          " tensors; one of them is damaged or of another model, fetch them again");
}

Result<std::vector<Part>> open_others(const std::string& path, Part opened, uint32_t count) {
  Result<GgufPartName> named = named_part(path, opened.file, count);
  if (!named.ok()) return with_context(path, named.status());
  const GgufPartName own = *std::move(named);
  // What the file says of itself counts before anything is looked for by its name.
  const Status fits = PartCheck(own).check(opened.file, opened.file);
  if (!fits.ok()) return with_context(path, fits);
  std::vector<Part> parts;
  for (uint32_t number = 1; number <= count; ++number) {
    if (number == own.number) continue;
    const GgufPartName name{own.prefix, number, count};
    if (!is_there(name.path())) {
      return invalid_argument(path + ": " + part_of(number, count) +
                              " of the model is missing; expected " + path_in_quotes(name.path()) +
                              " next to it; fetch it");
    }
    TENON_ASSIGN_OR_RETURN(Part part, open_part(name.path()));
    parts.push_back(std::move(part));
  }
  parts.insert(parts.begin() + (own.number - 1), std::move(opened));
  for (uint32_t number = 1; number <= count; ++number) {
    const GgufPartName name{own.prefix, number, count};
    const Status status = PartCheck(name).check(parts[number - 1].file, parts.front().file);
    if (!status.ok()) return with_context(name.path(), status);
  }
  const Status tensors = check_tensors(parts);
  if (!tensors.ok()) return with_context(path, tensors);
  return parts;
}

}  // namespace

std::string GgufPartName::path() const {
  return prefix + part_ending(number, count);
}

std::optional<GgufPartName> gguf_part_name(const std::string& path) {
  constexpr std::string_view kShape = "-00000-of-00000.gguf";
  if (path.size() <= kShape.size()) return std::nullopt;
  const size_t begin = path.size() - kShape.size();
  const std::string_view ending = std::string_view(path).substr(begin);
  const std::string_view number = ending.substr(1, 5), count = ending.substr(10, 5);
  if (!all_digits(number) || !all_digits(count)) return std::nullopt;
  GgufPartName name{path.substr(0, begin), static_cast<uint32_t>(std::stoul(std::string(number))),
                    static_cast<uint32_t>(std::stoul(std::string(count)))};
  const bool is_one = name.number >= 1 && name.number <= name.count && name.path() == path;
  return is_one ? std::optional(std::move(name)) : std::nullopt;
}

std::string without_gguf_part(const std::string& path) {
  const std::optional<GgufPartName> name = gguf_part_name(path);
  return name ? name->prefix + ".gguf" : path;
}

std::vector<std::string> gguf_part_paths(const std::string& path) {
  const std::optional<GgufPartName> own = gguf_part_name(path);
  if (!own) return {path};
  std::vector<std::string> paths;
  for (uint32_t number = 1; number <= own->count; ++number) {
    paths.push_back(GgufPartName{own->prefix, number, own->count}.path());
  }
  return paths;
}

Result<GgufParts> GgufParts::open(const std::string& path) {
  TENON_ASSIGN_OR_RETURN(Part first, open_part(path));
  const Result<uint32_t> count = count_of(first.file);
  if (!count.ok()) return with_context(path, count.status());
  GgufParts opened;
  if (*count == 1) {
    opened.file_ = std::move(first.file);
    opened.parts_.push_back(std::move(first.mapped));
    return opened;
  }
  TENON_ASSIGN_OR_RETURN(std::vector<Part> parts, open_others(path, std::move(first), *count));
  std::vector<GgufFile> files;
  for (Part& part : parts) {
    files.push_back(std::move(part.file));
    opened.parts_.push_back(std::move(part.mapped));
  }
  Result<GgufFile> joined = GgufFile::join(std::move(files));
  if (!joined.ok()) return with_context(path, joined.status());
  opened.file_ = *std::move(joined);
  return opened;
}

std::span<const std::byte> GgufParts::bytes_of(const GgufTensor& tensor) const {
  const std::span<const std::byte> rest = parts_[tensor.part].bytes().subspan(tensor.begin);
  return rest.first(std::min<uint64_t>(tensor.bytes.value_or(rest.size()), rest.size()));
}

uint64_t GgufParts::total_bytes() const {
  uint64_t bytes = 0;
  for (const MappedFile& part : parts_) bytes += part.bytes().size();
  return bytes;
}

}  // namespace tenon
