// What a plugin's process says of the library that it has loaded: descriptors without functions.
#pragma once

#include <tenon/plugin.h>

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/isolation/wire.h"
#include "core/plugin/library.h"
#include "core/plugin/settings.h"

namespace tenon {

void write_descriptors(const LoadedLibrary& library, WireWriter& out);
// Into a library whose descriptors view texts of `texts`. Error: it is not sane.
class DescribedLibrary {
 public:
  static Result<std::unique_ptr<DescribedLibrary>> read(WireReader& in, const std::string& path);
  LoadedLibrary library;

 private:
  std::string_view keep(std::string_view text);
  void read_descriptor(WireReader& in);
  OptionSpec read_option(WireReader& in);
  const Fact* read_facts(WireReader& in, uint32_t& count);

  std::deque<std::string> texts_;
  std::deque<std::vector<OptionSpec>> options_;
  std::deque<std::vector<std::string_view>> choices_;
  std::deque<std::vector<Fact>> facts_;
};

void write_settings(std::span<const Setting> settings, WireWriter& out);
std::vector<Setting> read_settings(WireReader& in);

void write_facts(const PipelineFacts& facts, WireWriter& out);
struct ReadFacts {
  std::deque<std::string> texts;
  std::vector<ResolvedFact> facts;
  PipelineFacts view() const { return {facts.data(), static_cast<uint32_t>(facts.size())}; }
};
ReadFacts read_facts(WireReader& in);

void write_model_shape(const ModelShape& shape, WireWriter& out);
// Arrays are views of the message, and of `layers`.
ModelShape read_model_shape(WireReader& in, std::vector<LayerShape>& layers);

}  // namespace tenon
