// SPDX-License-Identifier: Apache-2.0
#include "ops/formats/bundle/sorted_table.h"

#include "ops/formats/bundle/wire.h"
#include "ops/formats/files/crc32c.h"

namespace sok {
namespace {

constexpr size_t kFooterBytes = 48;
constexpr uint64_t kMagic = 0xdb4775248b80fb57;  // at the end of the footer

/// The block at the next handle, its offset and size; its compression and checksum follow it.
std::string_view Block(std::string_view data, WireReader& handle) {
  const uint64_t offset = handle.Varint(), size = handle.Varint();
  WireReader reader(data);
  reader.Bytes(offset);
  const std::string_view stored = reader.rest();
  const std::string_view block = reader.Bytes(size);
  const uint64_t compression = reader.Fixed(1);
  const auto sum = static_cast<uint32_t>(reader.Fixed(4));
  if (Crc32c(0, stored.data(), size + 1) != UnmaskedCrc32c(sum))
    Throw(ErrorCode::kDataLoss, "the CRC-32C of its block at ", offset, " differs");
  if (compression != 0) Throw(ErrorCode::kDataLoss, "its block at ", offset, " is compressed");
  return block;
}

/// Calls use(name, value). A name shares its begin with the one before; the places where names are
/// whole stand behind the entries, and how many these are.
template <typename Use>
void ForEachEntry(std::string_view block, const Use& use) {
  constexpr size_t kNumberBytes = 4;
  WireReader reader(block);
  reader.Bytes(block.size() < kNumberBytes ? kNumberBytes : block.size() - kNumberBytes);
  const uint64_t places_bytes = kNumberBytes * (reader.Fixed(kNumberBytes) + 1);
  if (places_bytes > block.size()) Throw(ErrorCode::kDataLoss, "a block ends early");
  std::string name;
  for (WireReader entries(block.substr(0, block.size() - places_bytes)); !entries.at_end();) {
    const uint64_t num_shared = entries.Varint(), num_own = entries.Varint();
    const uint64_t value_bytes = entries.Varint();
    if (num_shared > name.size()) Throw(ErrorCode::kDataLoss, "a name has no begin");
    name.resize(num_shared);
    name += entries.Bytes(num_own);
    use(name, entries.Bytes(value_bytes));
  }
}

std::map<std::string, std::string> Parsed(std::string_view data) {
  if (data.size() < kFooterBytes || WireReader(data.substr(data.size() - 8)).Fixed(8) != kMagic)
    Throw(ErrorCode::kDataLoss, "it is cut off, or no index of a checkpoint: it has ", data.size(),
          " bytes");
  WireReader footer(data.substr(data.size() - kFooterBytes));
  footer.Varint(), footer.Varint();  // the handle of a block for other programs
  std::map<std::string, std::string> found;
  ForEachEntry(Block(data, footer), [&](const std::string&, std::string_view value) {
    WireReader handle(value);
    ForEachEntry(Block(data, handle), [&](const std::string& name, std::string_view entry) {
      found.emplace(name, entry);
    });
  });
  return found;
}

}  // namespace

std::map<std::string, std::string> ReadSortedTable(const FileSystem& files,
                                                   const std::string& path) {
  const std::string data = files.ReadWhole(path);
  try {
    return Parsed(data);
  } catch (const Error& error) {
    Throw(error.code(), path, " is not as it was written: ", error.what(),
          "; restore an earlier checkpoint");
  }
}

}  // namespace sok
