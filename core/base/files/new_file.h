// Files that appear whole or not at all: written under a name of their own next to the final one,
// brought to the disk, renamed at the end. What is not finished disappears with its object, and
// with remove_unfinished() where a signal ends the program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace tenon {

enum class Existing { replace, refuse };  // a file that already has the final name

// Removes what is unfinished. Async-signal-safe; the program ends right after it.
void remove_unfinished() noexcept;

// A path that disappears on destruction and in remove_unfinished(), unless it is kept.
class UnfinishedPath {
 public:
  // `inside` are names that are removed from a folder before it; empty = the path is a file.
  // They must outlive the object.
  explicit UnfinishedPath(std::string path, std::span<const char* const> inside = {});
  UnfinishedPath(UnfinishedPath&& other) noexcept;
  UnfinishedPath& operator=(UnfinishedPath&&) = delete;
  ~UnfinishedPath();

  void keep() noexcept;  // it stays
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::span<const char* const> inside_;
  int slot_ = -1;  // in the table that remove_unfinished() reads
  bool kept_ = false;
};

class NewFile {
 public:
  // A symbolic link is followed; a device or a pipe is written directly. Errors: failed (no such
  // folder, no permission, `path` is a folder).
  static Result<NewFile> create(const std::string& path);
  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile();

  Status reserve(uint64_t bytes);
  // Of a range that no other thread writes. [any thread]
  Status write_at(uint64_t offset, std::string_view bytes) const;
  Status append(std::string_view bytes);
  // On the disk and in place. With Existing::refuse: invalid_argument where the name is taken.
  Status keep(Existing existing);

 private:
  NewFile(std::string path, UnfinishedPath unfinished, int fd, bool direct);
  Status error(std::string_view what) const;

  std::string path_;
  UnfinishedPath unfinished_;
  int fd_;
  bool direct_;  // no regular file: nothing to rename
};

// A whole file of these parts, one after the other.
Status write_file(const std::string& path, std::initializer_list<std::string_view> parts,
                  Existing existing = Existing::replace);

// A folder to put files into, for one program at a time. One that was not there before disappears
// again with these files of it, unless it is kept.
class NewFolder {
 public:
  // Makes the folder and its parents. Errors: failed (no permission, or another program is writing
  // there).
  static Result<NewFolder> create(const std::string& path, std::span<const char* const> files);
  NewFolder(NewFolder&& other) noexcept;
  NewFolder& operator=(NewFolder&&) = delete;
  ~NewFolder();

  void keep() noexcept { folder_.keep(); }

 private:
  NewFolder(UnfinishedPath folder, int fd) : folder_(std::move(folder)), fd_(fd) {}

  UnfinishedPath folder_;
  int fd_;  // holds the lock
};

}  // namespace tenon
