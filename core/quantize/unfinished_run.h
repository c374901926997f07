// What a run has done so far, in the folder that it writes: a run that was interrupted goes on from
// it. The folder `quantize.partial` inside holds
//
//   run.json                   settings and a hash of all that the result follows from
//   layer-00003.safetensors    what a layer became
//   states-00004.f32           hidden states before the first layer that is not done
//   layer-00003.json           is there once the layer is done: the names that its tensors replace,
//                              the run's hash, and SHA-256 sums of the layer's file and states
//
// and disappears when the model is whole. Files that do not have their sums, or are another run's,
// are not gone on from: what follows from them is computed again, and a warning says so.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/files/new_file.h"
#include "core/base/result.h"
#include "core/model/checkpoint/checkpoint.h"
#include "core/quantize/blocks/made_tensor.h"

namespace tenon::quantize {

class UnfinishedRun {
 public:
  // Makes the folder, or goes on in one with the same hash, after the layers that are sound.
  // Errors: invalid_argument (the folder holds a model, or a run with other settings), failed
  // (another program is writing there).
  static Result<UnfinishedRun> open(const std::string& folder, const std::string& settings,
                                    const std::string& hash);

  uint32_t layers_done() const { return layers_done_; }
  // Before layer layers_done().
  Result<std::vector<float>> read_states() const;
  // `states` (may be empty) are those after the layer, which is layers_done().
  Status add_layer(const MadeTensors& tensors, const std::vector<std::string>& replaced,
                   std::span<const float> states);

  // What all layers became.
  struct Layer {
    std::unique_ptr<Checkpoint> tensors;
    std::vector<std::string> replaced;  // names in the source
  };
  Result<std::vector<Layer>> layers() const;
  void remove();
  // Of a run that failed before its first layer was done: the next one may have other settings.
  void remove_if_nothing_is_done();

 private:
  UnfinishedRun(std::string folder, std::string hash, NewFolder lock, bool made)
      : folder_(std::move(folder)), hash_(std::move(hash)), lock_(std::move(lock)), made_(made) {}
  void find_sound_layers();
  std::string path(const char* kind, uint32_t layer, const char* extension) const;

  std::string folder_;  // quantize.partial
  std::string hash_;
  NewFolder lock_;
  bool made_;  // the folder around it was not there before
  uint32_t layers_done_ = 0;
};

}  // namespace tenon::quantize
