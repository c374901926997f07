// What launches did, for those who want to know how much a kernel moves.
#include <tenon/cuda/emulator.h>

#include "sdk/cuda_host/src/region.h"

namespace tenon::cuda {

Counts& Counts::operator+=(const Counts& more) {
  launches += more.launches;
  blocks += more.blocks;
  read_bytes += more.read_bytes;
  written_bytes += more.written_bytes;
  shared_read_bytes += more.shared_read_bytes;
  shared_written_bytes += more.shared_written_bytes;
  async_copies += more.async_copies;
  mma += more.mma;
  bf16_operations += more.bf16_operations;
  f16_operations += more.f16_operations;
  s8_operations += more.s8_operations;
  barriers += more.barriers;
  touched_read_bytes += more.touched_read_bytes;
  touched_written_bytes += more.touched_written_bytes;
  return *this;
}

std::map<std::string, Counts> Emulator::recorded_counts() const {
  std::map<std::string, Counts> sums;
  for (const LaunchRecord& record : records_) sums[record.name] += record.counts;
  return sums;
}

void Emulator::touch(Region& region, int64_t offset, uint32_t bytes, Touch how) {
  if (!recording_ || region.shared) return;
  if (region.touched.empty()) region.touched.resize(region.bytes);
  const uint8_t bit = how == Touch::read ? Region::kRead : Region::kWritten;
  // What the launch wrote itself need not come from memory.
  const uint8_t known = how == Touch::read ? Region::kRead | Region::kWritten : Region::kWritten;
  uint64_t& count =
      how == Touch::read ? launch_counts_.touched_read_bytes : launch_counts_.touched_written_bytes;
  const auto first = static_cast<uint64_t>(offset);
  for (uint64_t byte = first; byte < first + bytes; ++byte) {
    if ((region.touched[byte] & known) == 0) ++count;
    region.touched[byte] |= bit;
  }
}

}  // namespace tenon::cuda
