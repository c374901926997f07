// The cache of Hugging Face's own programs on this machine, which Tenon reads, and writes in the
// same way: a model that one of them brought is there for all (docs/hub.md).
//
//   <cache>/models--Qwen--Qwen3-0.6B/
//     refs/main                 the commit that the branch was at, when it was brought last
//     snapshots/<commit>/       the files by their names: links into blobs
//     blobs/<hash>              their bytes
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/hub/model_name.h"

namespace tenon::hub {

// HF_HUB_CACHE, else HUGGINGFACE_HUB_CACHE, else "hub" in home_folder(). "~" and "$NAME" in them
// are replaced, as those programs do it. [any thread, as long as none changes the environment]
std::string cache_folder();
// HF_HOME, else "huggingface" in XDG_CACHE_HOME or ~/.cache.
std::string home_folder();
// "models--Qwen--Qwen3-0.6B"
std::string folder_of(std::string_view repository);

// Where a model lies in the cache: its snapshot; or a GGUF file there, where the name says one or
// the snapshot has nothing else to run (of one in parts, the first). Null: not there.
std::optional<std::string> find_in_cache(const ModelName& name);

// What `text` means as the path of a model: itself where that path exists, else what a name means
// in the cache, else itself.
std::string find_model(const std::string& text);
// Whether `text`, read where relative paths begin at `folder`, is a name and no path: nothing lies
// there, nor at the same place in the current folder; and it is in the cache, or has an owner whom
// no folder is called after.
bool is_name_alone(const std::string& text, const std::string& folder);

// "Qwen/Qwen3-0.6B" of a path inside a snapshot of it; null for any other path.
std::optional<std::string> name_of_snapshot(const std::string& path);

// The last folder or file of a model's path, or, inside a snapshot, the model's own name without
// its owner: for people and for names of results.
std::string short_name(const std::string& path);

// What else to say where no model could be read at `path`: that a name is not in the cache and how
// to bring it, or what a snapshot lacks. Begins with a separator; empty: nothing.
std::string hint(const std::string& path);

}  // namespace tenon::hub
