// The folder that a comparison leaves: docs/comparing.md names its files. Pieces are written as
// they end, so that whatever happens later, what was measured is there.
#pragma once

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/report/statistics/measured.h"

namespace tenon::compare {

class Folder {
 public:
  // Makes it. Error: there is one already, or it cannot be made.
  static Result<Folder> create(const std::string& path);

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  // Copies the workload in; gives back where it is now.
  Result<std::string> keep_workload(const std::string& path) const;
  // Writes arrivals.json, unless it is empty; gives back the SHA-256 of the work with it.
  Result<std::string> keep_arrivals(const std::string& workload,
                                    const std::string& arrivals_json) const;
  // comparison.json and the resolved pipelines, as far as they are known.
  Status write_head(const MeasuredComparison& measured) const;
  // With its rows or, where `rows_of` is the number of an earlier piece, with the word that its
  // rows are that one's.
  Status add(const MeasuredPiece& piece, std::optional<size_t> rows_of = std::nullopt);
  // Whether a piece is in it.
  bool has_pieces() const;
  // With all that is in it.
  void remove() const;

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  using File = std::unique_ptr<std::FILE, Close>;
  Status open_file(File& file, const std::string& name) const;
  Status not_written(const std::string& name) const;

  std::string path_;
  File pieces_, requests_;
  size_t pieces_written_ = 0;
};

// The workload that keep_workload() copied into the folder. Error: not_found.
Result<std::string> kept_workload(const std::string& folder);

// Rows of a piece beyond so many are summarised (requests_summary.h) once they are written or read.
inline constexpr size_t kMostRows = 50'000;

// Error: no folder of a comparison. A last line that was cut is left out, and `notes` says so.
Result<MeasuredComparison> read_folder(const std::string& path, std::vector<std::string>& notes,
                                       size_t most_rows = kMostRows);

}  // namespace tenon::compare
