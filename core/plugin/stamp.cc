#include "core/plugin/stamp.h"

#include <elf.h>
#include <tenon/plugin.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <optional>

#include "core/base/files/mapped_file.h"
#include "core/base/log.h"
#include "core/base/quote.h"
#include "core/base/text.h"

namespace tenon {
namespace {

static_assert(std::endian::native == std::endian::little, "ELF fields are read as they are");

constexpr size_t kMostSegments = 256;
constexpr uint32_t kNoteType = 1;
constexpr uint32_t kExecutorNoteType = 2;

using Bytes = std::span<const std::byte>;

// A struct at an offset that comes from the file, or nothing when it does not lie inside.
template <typename T>
std::optional<T> read_at(Bytes bytes, uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

Status fault(std::string_view name, std::string_view text) {
  return invalid_argument(std::string(name) + ": " + std::string(text));
}

// Of a file that ends before the `bytes` from `begin` on that its header speaks of.
Status ends_early(std::string_view name, const std::string& what, uint64_t begin, uint64_t bytes,
                  Bytes file) {
  const uint64_t end = begin + std::min(bytes, UINT64_MAX - begin);
  return fault(name, "the library is truncated: " + what + " at byte " + std::to_string(end) +
                         " and the file at " + std::to_string(file.size()) +
                         "; copy or build it anew");
}

Result<Elf64_Ehdr> read_header(Bytes file, std::string_view name) {
  if (file.empty()) return fault(name, "not a plugin: the file is empty");
  if (file.size() < SELFMAG || std::memcmp(file.data(), ELFMAG, SELFMAG) != 0) {
    return fault(name, "not a plugin: expected a shared library (an ELF file)");
  }
  if (file.size() < EI_NIDENT) {
    return ends_early(name, "its ELF header ends", 0, sizeof(Elf64_Ehdr), file);
  }
  if (file[EI_CLASS] != std::byte{ELFCLASS64} || file[EI_DATA] != std::byte{ELFDATA2LSB}) {
    return fault(name,
                 "built for another architecture: expected a 64-bit little-endian library; "
                 "rebuild it for this machine");
  }
  const auto header = read_at<Elf64_Ehdr>(file, 0);
  if (!header) return ends_early(name, "its ELF header ends", 0, sizeof(Elf64_Ehdr), file);
  if (header->e_type != ET_DYN) {
    return fault(name, "not a plugin: an ELF file, but not a shared library");
  }
  if (header->e_phnum == 0 || header->e_phentsize != sizeof(Elf64_Phdr)) {
    return fault(name, "the library is damaged: its ELF header lists no segments of " +
                           std::to_string(sizeof(Elf64_Phdr)) + " bytes each");
  }
  return *header;
}

// The text of a TENON note among the notes of one segment.
std::optional<std::string_view> find_note(Bytes notes, uint64_t alignment, uint32_t type) {
  const uint64_t step = alignment == 8 ? 8 : 4;
  const auto padded = [step](uint64_t size) { return (size + step - 1) / step * step; };
  uint64_t at = 0;
  while (const auto note = read_at<Elf64_Nhdr>(notes, at)) {
    const uint64_t owner = at + sizeof(Elf64_Nhdr);
    const uint64_t text = owner + padded(note->n_namesz);
    if (text > notes.size() || notes.size() - text < note->n_descsz) break;
    const auto* chars = reinterpret_cast<const char*>(notes.data());
    if (note->n_type == type && note->n_namesz == 6 && note->n_descsz <= kMostStampBytes &&
        std::memcmp(chars + owner, "TENON", 6) == 0) {
      return std::string_view(chars + text, note->n_descsz);
    }
    at = text + padded(note->n_descsz);
  }
  return std::nullopt;
}

// Every segment lies inside of the file: the loader maps what they say, and touching what is not
// there kills the process.
Status check_segments(Bytes file, const Elf64_Ehdr& header, std::string_view name) {
  if (header.e_phnum > kMostSegments) {
    return fault(name, "the library has " + std::to_string(header.e_phnum) +
                           " segments; expected at most " + std::to_string(kMostSegments));
  }
  const uint64_t table = header.e_phoff, table_bytes = header.e_phnum * sizeof(Elf64_Phdr);
  if (table > file.size() || table_bytes > file.size() - table) {
    return ends_early(name, "its table of segments ends", table, table_bytes, file);
  }
  for (size_t i = 0; i < header.e_phnum; ++i) {
    const auto segment = read_at<Elf64_Phdr>(file, table + i * sizeof(Elf64_Phdr));
    const uint64_t bytes = segment->p_type == PT_NULL ? 0 : segment->p_filesz;
    if (bytes == 0) continue;
    if (segment->p_offset > file.size() || bytes > file.size() - segment->p_offset) {
      return ends_early(name, "a segment ends", segment->p_offset, bytes, file);
    }
  }
  return {};
}

// Of a file whose segments lie inside of it. Empty when it has no such note.
std::string_view find_note_text(Bytes file, const Elf64_Ehdr& header, uint32_t type) {
  for (size_t i = 0; i < header.e_phnum; ++i) {
    const auto segment = read_at<Elf64_Phdr>(file, header.e_phoff + i * sizeof(Elf64_Phdr));
    // One of no bytes may lie anywhere.
    if (segment->p_type != PT_NOTE || segment->p_filesz == 0) continue;
    const Bytes notes = file.subspan(segment->p_offset, segment->p_filesz);
    if (const auto text = find_note(notes, segment->p_align, type)) return *text;
  }
  return {};
}

std::string* field(PluginStamp& stamp, std::string_view key) {
  if (key == "sdk") return &stamp.sdk;
  if (key == "boundary") return &stamp.boundary;
  if (key == "layout") return &stamp.layout;
  if (key == "cxxabi") return &stamp.cxxabi;
  if (key == "arch") return &stamp.arch;
  if (key == "compiler") return &stamp.compiler;
  if (key == "build") return &stamp.build;
  if (key == "cuda") return &stamp.cuda;
  return nullptr;
}

Status parse_plugins(std::string_view list, PluginStamp& stamp, std::string_view name) {
  for (std::string_view item : split(list, ',')) {
    const size_t colon = item.find(':');
    const std::string_view interface = item.substr(0, colon);
    const std::string_view id = colon == item.npos ? "" : item.substr(colon + 1);
    if (!valid_interface(interface) || !valid_plugin_id(id)) {
      return fault(name, "the stamp is damaged: " + in_quotes(item) +
                             " does not name a plugin as interface/revision:id");
    }
    if (stamp.plugins.size() == kMostPlugins) {
      return fault(name, "the stamp lists more than " + std::to_string(kMostPlugins) +
                             " plugins; split the library");
    }
    const PluginName plugin{std::string(interface), std::string(id)};
    if (std::find(stamp.plugins.begin(), stamp.plugins.end(), plugin) != stamp.plugins.end()) {
      return fault(name, "the stamp lists " + in_quotes(item) + " twice");
    }
    stamp.plugins.push_back(plugin);
  }
  return {};
}

bool printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); });
}

Result<PluginStamp> parse_text(std::string_view text, std::string_view name) {
  text = text.substr(0, text.find('\0'));
  const std::vector<std::string_view> lines = split(text, '\n');
  if (lines.empty() || lines[0] != "note=1" || !printable(text)) {
    return fault(name, "the stamp is damaged or of a newer kind: expected 'note=1' and plain text");
  }
  PluginStamp stamp;
  for (std::string_view line : lines) {
    const size_t equals = line.find('=');
    if (equals == line.npos) {
      return fault(name, "the stamp is damaged: a line is not key=value");
    }
    const std::string_view key = line.substr(0, equals);
    const std::string_view value = line.substr(equals + 1);
    if (key == "plugins") {
      TENON_RETURN_IF_ERROR(parse_plugins(value, stamp, name));
    } else if (std::string* member = field(stamp, key)) {
      *member = value;
    }  // further keys come from newer SDKs and say nothing this program needs
  }
  for (const char* key : {"sdk", "boundary", "layout", "cxxabi", "arch"}) {
    if (field(stamp, key)->empty()) {
      return fault(name, "the stamp is damaged: it has no " + in_quotes(key));
    }
  }
  if (stamp.plugins.empty()) return fault(name, "the stamp lists no plugins");
  return stamp;
}

struct Version {
  uint32_t major = 0;
  uint32_t minor = 0;
};
Version parse_version(std::string_view text) {
  Version version;
  const char* end = text.data() + text.size();
  const auto major = std::from_chars(text.data(), end, version.major);
  if (major.ptr < end && *major.ptr == '.') std::from_chars(major.ptr + 1, end, version.minor);
  return version;
}

void warn_of_sanitizer(const PluginStamp& stamp, const PluginStamp& host, std::string_view name) {
  const auto sanitized = [](const std::string& kind) { return kind == "asan" || kind == "tsan"; };
  if (stamp.build != host.build && (sanitized(stamp.build) || sanitized(host.build))) {
    log(LogLevel::warning, "plugins",
        std::string(name) + ": built as " + in_quotes(stamp.build) + ", this program as " +
            in_quotes(host.build) + "; sanitizer reports will be incomplete or wrong");
  }
}

bool word(std::string_view text) {
  const auto letter = [](char c) { return c >= 'a' && c <= 'z'; };
  if (text.empty() || text.size() > 32 || !letter(text[0])) return false;
  return std::all_of(text.begin(), text.end(),
                     [&](char c) { return letter(c) || (c >= '0' && c <= '9') || c == '_'; });
}

}  // namespace

Result<PluginStamp> parse_stamp(std::span<const std::byte> file, std::string_view name) {
  TENON_ASSIGN_OR_RETURN(const Elf64_Ehdr header, read_header(file, name));
  TENON_RETURN_IF_ERROR(check_segments(file, header, name));
  const std::string_view text = find_note_text(file, header, kNoteType);
  if (text.empty()) {
    return unsupported(std::string(name) +
                       ": not a plugin: a shared library without a TENON note; plugins are built "
                       "with tenon_add_plugin and end with TENON_PLUGIN_LIBRARY");
  }
  TENON_ASSIGN_OR_RETURN(PluginStamp stamp, parse_text(text, name));
  stamp.machine = header.e_machine;
  return stamp;
}

Result<PluginStamp> read_stamp(const std::string& path) {
  TENON_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(path));
  return parse_stamp(file.bytes(), path);
}

Result<std::string> read_executor_stamp(const std::string& path) {
  TENON_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(path));
  TENON_ASSIGN_OR_RETURN(const Elf64_Ehdr header, read_header(file.bytes(), path));
  TENON_RETURN_IF_ERROR(check_segments(file.bytes(), header, path));
  const std::string_view text = find_note_text(file.bytes(), header, kExecutorNoteType);
  return std::string(text.substr(0, text.find('\0')));
}

PluginStamp host_stamp() {
  constexpr uint32_t kBytes = [] {
    detail::StampLength head;
    detail::add_stamp_head(head);
    return head.length;
  }();
  detail::StampText<kBytes> text;
  detail::add_stamp_head(text);
  PluginStamp stamp;
#if defined(__x86_64__)
  stamp.machine = EM_X86_64;
#elif defined(__aarch64__)
  stamp.machine = EM_AARCH64;
#endif
  for (std::string_view line : split({text.text, text.length}, '\n')) {
    const size_t equals = line.find('=');
    if (std::string* member = field(stamp, line.substr(0, equals))) {
      *member = line.substr(equals + 1);
    }
  }
  return stamp;
}

Status check_stamp(const PluginStamp& stamp, const PluginStamp& host, std::string_view name) {
  std::string faults;
  const auto compare = [&faults](const char* what, const std::string& found,
                                 const std::string& expected, const char* meaning) {
    if (found == expected) return;
    faults +=
        "\n  " + std::string(what) + " is " + found + ", expected " + expected + ": " + meaning;
  };
  compare("architecture", stamp.arch, host.arch, "it was built for another processor");
  if (stamp.arch == host.arch && stamp.machine != host.machine) {
    faults += "\n  the ELF machine is " + std::to_string(stamp.machine) + ", expected " +
              std::to_string(host.machine) + ": it was built for another processor";
  }
  compare("C++ ABI", stamp.cxxabi, host.cxxabi, "it was built with another C++ library");
  compare("boundary", stamp.boundary, host.boundary, "the plugin interfaces are not the same");
  compare("struct layout", stamp.layout, host.layout,
          "it was built with flags that change struct layout");
  const Version built = parse_version(stamp.sdk);
  const Version mine = parse_version(host.sdk);
  if (built.major != mine.major) {
    faults += "\n  SDK is " + stamp.sdk + ", expected " + std::to_string(mine.major) + ".x";
  } else if (built.minor > mine.minor) {
    faults += "\n  SDK is " + stamp.sdk + ", expected at most " + std::to_string(mine.major) + "." +
              std::to_string(mine.minor) + ": the plugin is newer than this program";
  }
  if (faults.empty()) {
    warn_of_sanitizer(stamp, host, name);
    return {};
  }
  return unsupported(std::string(name) + ": the plugin (SDK " + stamp.sdk +
                     ") does not fit this program (" + host.sdk + ")" + faults +
                     "\n  rebuild it against this program's SDK: cmake --fresh -B build "
                     "-DCMAKE_PREFIX_PATH=<where Tenon " +
                     host.sdk + " is installed> && cmake --build build");
}

bool valid_plugin_id(std::string_view id) {
  const size_t dot = id.find('.');
  if (dot == id.npos) return word(id);
  return word(id.substr(0, dot)) && word(id.substr(dot + 1));
}

bool valid_interface(std::string_view interface) {
  const size_t slash = interface.find('/');
  if (slash == interface.npos || !valid_plugin_id(interface.substr(0, slash))) return false;
  const std::string_view revision = interface.substr(slash + 1);
  return !revision.empty() && revision.size() <= 4 &&
         std::all_of(revision.begin(), revision.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::string_view interface_word(std::string_view interface) {
  return interface.substr(0, interface.find('/'));
}

}  // namespace tenon
