// SPDX-License-Identifier: Apache-2.0
// Files of dumps: their bytes, what is read of them and of foreign ones, and what a dump that dies
// leaves.
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/base/local_files.h"
#include "ops/formats/dumps/dump_source.h"
#include "ops/formats/dumps/dump_writer.h"
#include "ops/formats/dumps/headed_dump.h"
#include "ops/formats/dumps/pair_dump.h"
#include "ops/formats/files/crc32c.h"
#include "ops/formats/files/save_id.h"
#include "ops/tests/check.h"

namespace sok {
namespace {

namespace fs = std::filesystem;

const FileSystem& kFiles = FileSystem::Local();
const std::vector<DumpedSlot> kSlots{{"Adamax", "m", "Adam"}};

/// A folder that is removed.
struct Folder {
  Folder() {
    std::string pattern = "/tmp/dumps_test_XXXXXX";
    path = mkdtemp(pattern.data());
  }
  ~Folder() { fs::remove_all(path); }
  std::string At(const std::string& name) const { return path + "/" + name; }
  std::vector<std::string> Names() const { return kFiles.List(path); }

  std::string path;
};

/// Keys, rows of two and slots of one number; `number` tells tables apart.
struct Contents {
  std::vector<int64_t> keys;
  std::vector<float> rows, slots;

  bool operator==(const Contents& other) const {
    return keys == other.keys && rows == other.rows && slots == other.slots;
  }
};

Contents Numbered(float number) {
  return {{7, -2, int64_t{1} << 40}, {0, 1, 2, 3, 4, number}, {0.5, 2.5, number}};
}

std::ostream& operator<<(std::ostream& out, const Contents& contents) {
  return out << "rows that end with " << (contents.rows.empty() ? 0 : contents.rows.back());
}

std::unique_ptr<const DumpFormat> Headed(const Folder& folder, const std::string& name,
                                         StoredType key_type = StoredType::kInt64) {
  return std::make_unique<HeadedDump>(folder.path, name, key_type, kSlots);
}

template <typename T>
void AppendColumn(RowsSink& sink, size_t column, int64_t width, const std::vector<T>& numbers) {
  sink.Begin(column, width);
  const size_t num_bytes = numbers.size() * sizeof(T);
  if (num_bytes > 0) std::memcpy(sink.Buffer(num_bytes), numbers.data(), num_bytes);
  sink.Append(num_bytes);
  sink.End();
}

void Append(RowsSink& sink, const Contents& contents) {
  AppendColumn(sink, 0, 1, contents.keys);
  AppendColumn(sink, 1, 2, contents.rows);
  AppendColumn(sink, 2, 1, contents.slots);
}

void Write(const Folder& folder, const std::vector<std::string>& names, float number) {
  DumpWriter writer(kFiles, folder.path);
  for (const std::string& name : names) Append(writer.Add(Headed(folder, name)), Numbered(number));
  writer.Commit();
}

Contents Read(const Folder& folder, const std::string& name,
              const std::vector<DumpedSlot>& slots = kSlots) {
  const HeadedDump format(folder.path, name, StoredType::kInt64, slots);
  DumpSource source(kFiles, format);
  const int64_t count = source.num_keys();
  Contents found{std::vector<int64_t>(static_cast<size_t>(count)),
                 std::vector<float>(static_cast<size_t>(count * 2)),
                 std::vector<float>(slots.empty() ? 0 : static_cast<size_t>(count))};
  source.Read(0, 0, count, reinterpret_cast<char*>(found.keys.data()));
  source.Read(1, 0, count, reinterpret_cast<char*>(found.rows.data()));
  if (!slots.empty()) source.Read(2, 0, count, reinterpret_cast<char*>(found.slots.data()));
  return found;
}

std::string Content(const std::string& path) { return kFiles.ReadWhole(path); }

void Put(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

template <typename T>
std::string Bytes(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

SOK_TEST(ChecksumsOfKnownBytes) {
  CHECK_EQ(Crc32c(0, "123456789", 9), 0xe3069283u);
  const std::string data(100003, 'x');
  CHECK_EQ(Crc32c(Crc32c(0, data.data(), 13), data.data() + 13, data.size() - 13),
           Crc32c(0, data.data(), data.size()));
}

SOK_TEST(FilesAreThoseOfSparseOperationKit2) {
  const Folder folder;
  Write(folder, {"user/id:0"}, 5);
  CHECK_EQ(folder.Names().size(), size_t{4});
  const std::string keys = Content(folder.At("user_id_0-key"));
  CHECK_EQ(keys.substr(0, 256), std::string(247, ' ') + "user/id:0");
  CHECK_EQ(keys.substr(256, 4), std::string(4, '\0'));
  CHECK_EQ(keys.substr(260, 36), std::string(32, ' ') + std::string("\0\0\0\1", 4));
  CHECK_EQ(keys.substr(296), Bytes(Numbered(5).keys));
  const std::string slots = Content(folder.At("user_id_0-Adamax-m"));
  CHECK_EQ(slots.substr(256, 40),
           std::string("\0\0\0\2", 4) + std::string(31, ' ') + "m" + std::string("\0\0\0\5", 4));
  CHECK_EQ(slots.substr(296), Bytes(Numbered(5).slots));
  CHECK_EQ(Read(folder, "user/id:0"), Numbered(5));
}

/// A file without a table's name, as SparseOperationKit writes it.
std::string Foreign(char kind, char type, const std::string& array, const std::string& slot = "") {
  return std::string(256, ' ') + std::string(3, '\0') + kind + std::string(32 - slot.size(), ' ') +
         slot + std::string(3, '\0') + type + array;
}

SOK_TEST(FilesOfOtherDtypes) {
  const Folder folder;
  const std::vector<std::string> keys{Bytes<int32_t>({3, -9}), Bytes<int64_t>({3, -9}),
                                      Bytes<uint32_t>({3, 4294967287u}),
                                      Bytes<uint64_t>({3, ~uint64_t{0} - 8})};
  const std::vector<std::string> rows{Bytes<uint16_t>({0x3c00, 0xc000, 0x0001, 0x7c00}),
                                      Bytes<float>({1, -2, 5.9604645e-8f, HUGE_VALF}),
                                      Bytes<double>({1, -2, 5.9604645e-8, HUGE_VAL})};
  for (size_t key_type = 0; key_type < keys.size(); ++key_type) {
    for (size_t row_type = 0; row_type < rows.size(); ++row_type) {
      Put(folder.At("t_0-key"), Foreign(0, static_cast<char>(key_type), keys[key_type]));
      Put(folder.At("t_0-weight"), Foreign(1, static_cast<char>(4 + row_type), rows[row_type]));
      const Contents found = Read(folder, "t:0", {});
      CHECK_EQ(found.keys[1], key_type == 2 ? 4294967287 : -9);
      CHECK_EQ(found.rows[1], -2.0f);
      CHECK_EQ(found.rows[2], 5.9604645e-8f);
      CHECK_EQ(found.rows[3], HUGE_VALF);
    }
  }
}

SOK_TEST(SlotsUnderTheNameOfAnotherOptimizer) {
  const Folder folder;
  Write(folder, {"t"}, 1);
  fs::remove(folder.At("t-note"));
  fs::rename(folder.At("t-Adamax-m"), folder.At("t-Adam-m"));
  CHECK_EQ(Read(folder, "t"), Numbered(1));
  CHECK_THROWS(ErrorCode::kNotFound, (std::vector<std::string>{"t-Adamax-v is missing", "here: t"}),
               Read(folder, "t", {{"Adamax", "v", "Adam"}}));
}

SOK_TEST(DamagedAndForeignFiles) {
  const Folder folder;
  Write(folder, {"t"}, 1);
  const std::string path = folder.At("t-weight"), data = Content(path);
  const auto fails = [&](ErrorCode code, const std::string& words) {
    testing::CheckThrows(__FILE__, __LINE__, code, {words}, [&] { Read(folder, "t"); });
  };
  Put(path, data.substr(0, data.size() - 1) + "x");
  fails(ErrorCode::kDataLoss, "t-weight is not as it was written: its CRC-32C");
  Put(path, data.substr(0, data.size() - 4));
  fails(ErrorCode::kDataLoss, "it has 316 bytes, and " + folder.At("t-note") + " says 320");
  Put(folder.At("t-note"), "?");
  fails(ErrorCode::kDataLoss, "was not written by a dump");
  fs::remove(folder.At("t-note"));
  fails(ErrorCode::kInvalidArgument, "5 numbers, which are not rows for 3 keys");
  Put(path, data.substr(0, data.size() - 3));
  fails(ErrorCode::kDataLoss, "ends within a float32");
  Put(path, data.substr(0, 100));
  fails(ErrorCode::kDataLoss, "does not begin with a header of 296 bytes");
  Put(path, Content(folder.At("t-Adamax-m")));
  fails(ErrorCode::kInvalidArgument, "must hold rows, but its header says slot of float32");
  fs::remove(path);
  fails(ErrorCode::kNotFound, "t-weight is missing, a file of a dump; dumped tables here: t");
  fs::create_directory(path);
  testing::CheckThrows(__FILE__, __LINE__, ErrorCode::kIo, {"is a folder, but"},
                       [&] { Write(folder, {"t"}, 2); });
}

SOK_TEST(NoKeys) {
  const Folder folder;
  DumpWriter writer(kFiles, folder.path);
  Append(writer.Add(Headed(folder, "t", StoredType::kInt32)), {});
  writer.Commit();
  CHECK_EQ(Read(folder, "t").keys.size(), size_t{0});
}

SOK_TEST(ADumpIsOneOfAllTables) {
  const Folder folder;
  Write(folder, {"a", "b"}, 1);
  const std::string note = Content(folder.At("a-note"));
  const std::string earlier = note.substr(note.find("id ") + 3, kSaveIdDigits);
  {  // dies before it counts
    DumpWriter writer(kFiles, folder.path);
    Append(writer.Add(Headed(folder, "a")), Numbered(2));
    CHECK_EQ(folder.Names().size(), size_t{11});
  }
  CHECK_EQ(folder.Names().size(), size_t{8});
  std::map<std::string, std::string> old;
  for (const std::string& name : folder.Names()) old[name] = Content(folder.At(name));
  Write(folder, {"a", "b"}, 3);
  const std::string now = Content(folder.At("b-note"));
  const std::string id = now.substr(now.find("id ") + 3, kSaveIdDigits);
  // As it was when the record was in place, and of `num_moved` files the last ones were not.
  for (size_t num_moved = 0; num_moved < old.size(); ++num_moved) {
    const std::vector<std::string> names = folder.Names();
    for (size_t i = num_moved; i < names.size(); ++i) {
      fs::rename(folder.At(names[i]), folder.At(names[i] + "." + id));
      Put(folder.At(names[i]), old[names[i]]);
    }
    Put(DumpRecord::PathIn(folder.path), DumpRecord::TextOf(id, {"a-note", "b-note"}));
    Put(folder.At("a-key." + earlier), "left");
    CHECK_EQ(Read(folder, "a"), Numbered(3));
    CHECK_EQ(Read(folder, "b"), Numbered(3));
    {  // the next one of any table finishes it
      DumpWriter writer(kFiles, folder.path);
    }
    CHECK_EQ(folder.Names().size(), old.size());
    CHECK_EQ(Read(folder, "a"), Numbered(3));
    CHECK_EQ(Read(folder, "b"), Numbered(3));
  }
}

SOK_TEST(LeftoversOfThisMachineGoAtOnce) {
  const Folder folder;
  const std::string mine = NewSaveId(), other = std::string(kSaveIdDigits, 'f');
  for (const char* place : {"t-key", "gone-weight", "t_keys.file"})
    Put(folder.At(std::string(place) + "." + mine), "left");
  Put(folder.At("t-key." + other), "of another machine");
  const NewFile held(folder.At("t-weight." + NewSaveId()));  // of a dump that runs
  Put(folder.At("t-key.backup"), "the user's");
  DumpWriter writer(kFiles, folder.path);
  CHECK_EQ(folder.Names().size(), size_t{3});
}

SOK_TEST(PairsWithoutATable) {
  const Folder folder;
  Put(folder.At("t_keys.file"), Bytes<uint32_t>({1, 2}));
  Put(folder.At("t_values.file"), Bytes<float>({1, 2, 3, 4}));
  const PairDump wide(folder.path, "t", StoredType::kUint32, /*dim=*/0);
  CHECK_EQ(DumpSource(kFiles, wide).width(1), int64_t{2});
  const PairDump narrow(folder.path, "t", StoredType::kInt64, /*dim=*/2);
  CHECK_EQ(static_cast<int>(DumpSource(kFiles, narrow).stored(0).type),
           static_cast<int>(StoredType::kUint32));
  CHECK_THROWS(ErrorCode::kInvalidArgument,
               (std::vector<std::string>{"has 8 bytes", "embedding_vec_size"}),
               DumpSource(kFiles, PairDump(folder.path, "t", StoredType::kInt64, 3)));
}

}  // namespace
}  // namespace sok

SOK_TEST_MAIN()
