// SPDX-License-Identifier: Apache-2.0
// SyncedFile: bytes that need not fill blocks, where direct writes work and where they are refused,
// and a disk that is full.
#include "ops/formats/files/synced_file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "ops/base/error.h"
#include "ops/tests/check.h"

static bool refuses_direct_writes = false;

/// In place of the C library's.
extern "C" ssize_t pwrite(int file, const void* data, size_t num_bytes, off_t offset) {
  if (refuses_direct_writes && (fcntl(file, F_GETFL) & O_DIRECT) != 0) {
    errno = EINVAL;
    return -1;
  }
  return syscall(SYS_pwrite64, file, data, num_bytes, offset);
}

namespace sok {
namespace {

constexpr size_t kMiB = 1 << 20;
const FileSystem& kFiles = FileSystem::Local();

std::string Numbered(size_t num_bytes) {
  std::string bytes(num_bytes, ' ');
  for (size_t i = 0; i < num_bytes; ++i) bytes[i] = static_cast<char>(i * 31 + i / 4096);
  return bytes;
}

/// Writes `bytes` in pieces: the first by a file of its own, to which others are appended.
void Write(const std::string& path, const std::string& bytes, size_t first, size_t piece) {
  const auto write = [&](size_t begin, size_t end, size_t most, bool appends) {
    SyncedFile file(kFiles, path, appends);
    for (size_t at = begin; at < end; at += most)
      file.Append(bytes.data() + at, std::min(most, end - at));
    file.Finish();
  };
  write(0, first, first, /*appends=*/false);
  write(first, bytes.size(), piece, /*appends=*/true);
}

/// Calls use(folder) with new folders: on a disk, in memory, and where direct writes are refused.
template <typename Use>
void InFolders(const Use& use) {
  for (const bool refuses : {false, true}) {
    for (const char* parent : {"/tmp", "/dev/shm"}) {
      refuses_direct_writes = refuses;
      std::string folder = std::string(parent) + "/synced_file_test_XXXXXX";
      if (mkdtemp(folder.data()) == nullptr) continue;  // not every machine has the second
      use(folder);
      std::filesystem::remove_all(folder);
    }
  }
}

SOK_TEST(BytesThatFillNoBlocks) {
  InFolders([](const std::string& folder) {
    const std::string path = folder + "/file";
    for (const size_t first : {size_t{1}, size_t{4096}, size_t{5000}, 4 * kMiB, 4 * kMiB + 100}) {
      for (const size_t rest : {size_t{0}, size_t{10}, size_t{4096}, 9 * kMiB, 9 * kMiB + 1}) {
        const std::string bytes = Numbered(first + rest);
        Write(path, bytes, first, 3 * kMiB - 7);
        CHECK_TRUE(kFiles.ReadWhole(path) == bytes);
      }
    }
    Write(path, Numbered(10), 3, 1);  // over a longer one
    CHECK_EQ(kFiles.Size(path), int64_t{10});
  });
}

SOK_TEST(AFullDisk) {
  std::signal(SIGXFSZ, SIG_IGN);
  InFolders([](const std::string& folder) {
    rlimit before{};
    getrlimit(RLIMIT_FSIZE, &before);
    for (const size_t limit : {6 * kMiB, 6 * kMiB + 100}) {
      const rlimit lower{limit, before.rlim_max};
      setrlimit(RLIMIT_FSIZE, &lower);
      CHECK_THROWS(ErrorCode::kNoSpace, {folder},
                   Write(folder + "/full", Numbered(9 * kMiB), 100, kMiB));
      setrlimit(RLIMIT_FSIZE, &before);
    }
  });
}

}  // namespace
}  // namespace sok

SOK_TEST_MAIN()
