// A process of --launch next to Open MPI's launcher, which sees ranks come and go from outside: it
// names one that is lost before any other has seen it, ends a launcher that outlives its ranks, and
// ranks that outlive their launcher.
//
// `mpirun --quiet` says nothing of a rank that ends; without it, it says ten lines for each.
#pragma once

#include <cstdint>
#include <optional>

namespace tenon {

// Forks the witness of so many ranks. This process becomes their launcher afterwards, with the
// environment that it has then. Where the system grants no witness, there is none.
void start_launch_witness(uint32_t ranks);

// Of a rank: claims to be the one that says why the run ends. True for the first one; nothing where
// no witness is there to know. [any thread]
std::optional<bool> claim_last_word();
// Of a rank: whether a witness sees what happens to the others. [any thread]
bool has_witness();
// Of a rank: the run was told to end, so that nobody need say why, unless something else happens.
void expect_end();
// Takes what a launcher's environment says of the witness; processes that this one starts do not
// see it.
void remember_witness();

}  // namespace tenon
