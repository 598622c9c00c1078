// SPDX-License-Identifier: Apache-2.0
// Checkpoints in TensorFlow's format: what is read of them, and that no damage of an index reaches
// beyond its bytes. tests/saver/files compares with TensorFlow.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "ops/formats/bundle/saved_columns.h"
#include "ops/formats/bundle/series.h"
#include "ops/formats/files/crc32c.h"
#include "ops/tests/check.h"

namespace sok {
namespace {

namespace fs = std::filesystem;

const FileSystem& kFiles = FileSystem::Local();

std::string Fixed(uint64_t number, size_t num_bytes) {
  std::string bytes;
  for (size_t i = 0; i < num_bytes; ++i) bytes += static_cast<char>(number >> (8 * i));
  return bytes;
}

std::string Varint(uint64_t number) {
  std::string bytes;
  for (; number >= 0x80; number >>= 7) bytes += static_cast<char>(number | 0x80);
  return bytes + static_cast<char>(number);
}

std::string Number(int id, uint64_t number) { return Varint(id << 3) + Varint(number); }
std::string Message(int id, const std::string& bytes) {
  return Varint(id << 3 | 2) + Varint(bytes.size()) + bytes;
}

uint32_t Masked(uint32_t sum) { return (sum >> 15 | sum << 17) + 0xa282ead8u; }

/// An entry of int64 [num_rows]; `slices`: of a tensor without bytes of its own.
std::string Entry(int64_t num_rows, int64_t offset, const std::string& data,
                  const std::string& slices = "") {
  const std::string shape = Message(2, Number(1, static_cast<uint64_t>(num_rows)));
  std::string entry = Number(1, 9) + Message(2, shape) + slices;
  if (!slices.empty()) return entry;
  entry += Number(4, static_cast<uint64_t>(offset)) + Number(5, data.size());
  return entry + Varint(6 << 3 | 5) + Fixed(Masked(Crc32c(0, data.data(), data.size())), 4);
}

std::string Slice(uint64_t start, uint64_t length) {
  return Message(7, Message(1, Number(1, start) + Number(2, length)));
}

std::string Block(const std::vector<std::pair<std::string, std::string>>& entries) {
  std::string block;
  for (const auto& [name, value] : entries)
    block += Varint(0) + Varint(name.size()) + Varint(value.size()) + name + value;
  block += Fixed(0, 4) + Fixed(1, 4) + '\0';
  return block + Fixed(Masked(Crc32c(0, block.data(), block.size())), 4);
}

/// An index of one block.
std::string Index(const std::vector<std::pair<std::string, std::string>>& entries) {
  constexpr size_t kTrailerBytes = 5;
  const std::string data = Block(entries);
  const std::string blocks = Block({{"z", Varint(0) + Varint(data.size() - kTrailerBytes)}});
  std::string footer =
      Varint(0) + Varint(0) + Varint(data.size()) + Varint(blocks.size() - kTrailerBytes);
  footer.resize(40);
  return data + blocks + footer + Fixed(0xdb4775248b80fb57, 8);
}

/// A checkpoint with the numbers 0 to 4 as `cut`, in slices of 2 and 3, and as `whole`.
struct Saved {
  Saved() {
    std::string pattern = "/tmp/bundle_test_XXXXXX";
    folder = mkdtemp(pattern.data());
    prefix = folder + "/model";
    for (uint64_t i = 0; i < 5; ++i) data += Fixed(i, 8);
    Write(DataPath(prefix, 0, 1), data);
    const std::string first = data.substr(0, 16), second = data.substr(16);
    index = Index({{"", Number(1, 1)},
                   {SliceName("cut", {{0, 2}}), Entry(2, 0, first)},
                   {SliceName("cut", {{2, 3}}), Entry(3, 16, second)},
                   {"cut", Entry(5, 0, "", Slice(2, 3) + Slice(0, 2))},
                   {"whole", Entry(5, 0, data)}});
    Write(IndexPath(prefix), index);
  }
  ~Saved() { fs::remove_all(folder); }

  static void Write(const std::string& path, const std::string& content) {
    std::ofstream(path, std::ios::binary) << content;
  }

  /// The bytes of all tensors, read in parts.
  std::string Read() const {
    Bundle bundle(kFiles, prefix);
    std::string read;
    for (const std::string& name : bundle.Names()) {
      bundle.ForEachPart(name, 2, [&](int64_t, int64_t count, const char* rows) {
        read.append(rows, static_cast<size_t>(count) * 8);
      });
    }
    return read;
  }

  std::string folder, prefix, data, index;
};

SOK_TEST(TensorsAreReadInTheOrderOfRows) {
  const Saved saved;
  CHECK_EQ(saved.Read(), saved.data + saved.data);
  Bundle bundle(kFiles, saved.prefix);
  CHECK_EQ(bundle.PiecesOf("cut").size(), size_t{2});
  CHECK_EQ(bundle.Names("w").size(), size_t{1});
  CHECK_EQ(ChainOf(kFiles, saved.prefix).size(), size_t{1});
}

SOK_TEST(DamagedIndexesAreErrors) {
  const Saved saved;
  int errors = 0;
  const auto try_index = [&](const std::string& index) {
    Saved::Write(IndexPath(saved.prefix), index);
    try {
      CHECK_EQ(saved.Read(), saved.data + saved.data);  // bytes that nobody reads
    } catch (const Error& error) {
      CHECK_EQ(std::string(error.what()).find(saved.folder) == std::string::npos, false);
      ++errors;
    }
  };
  for (size_t bit = 0; bit < 8 * saved.index.size(); ++bit) {
    std::string index = saved.index;
    index[bit / 8] = static_cast<char>(index[bit / 8] ^ 1 << (bit % 8));
    try_index(index);
  }
  for (size_t size = 0; size < saved.index.size(); ++size) try_index(saved.index.substr(0, size));
  CHECK_EQ(errors > static_cast<int>(7 * saved.index.size()), true);
}

SOK_TEST(FlippedDataIsAnError) {
  const Saved saved;
  for (size_t i = 0; i < saved.data.size(); ++i) {
    std::string data = saved.data;
    data[i] = static_cast<char>(data[i] ^ 1);
    Saved::Write(DataPath(saved.prefix, 0, 1), data);
    CHECK_THROWS(ErrorCode::kDataLoss, (std::vector<std::string>{"CRC-32C"}), saved.Read());
  }
}

/// Memory is made for as many keys as were counted.
SOK_TEST(NoMoreKeysComeThanWereCounted) {
  const Saved saved;
  Bundle bundle(kFiles, saved.prefix);
  WantedKeys even;
  even.placement.num_ranks = 2;
  SavedColumns keys(bundle, even, "whole");
  keys.LimitRows(2);
  keys.Count();
  CHECK_EQ(keys.num_keys(), 3);
  std::string all_even;
  for (uint64_t i = 0; i < 5; ++i) all_even += Fixed(2 * i, 8);
  Saved::Write(DataPath(saved.prefix, 0, 1), all_even);
  int64_t num_come = 0;
  CHECK_THROWS(ErrorCode::kDataLoss, (std::vector<std::string>{"whole", "has changed"}),
               keys.ForEachBlock([&](const RowsBlock& block) { num_come += block.count; }));
  CHECK_EQ(num_come <= 3, true);
}

}  // namespace
}  // namespace sok

SOK_TEST_MAIN()
