// SPDX-License-Identifier: Apache-2.0
// To be preloaded: what a process syncs and renames, a line each, into the file SOK_TEST_SYNCS,
// with the bytes that the file had then. What had as many at its last sync is on the disk: files
// are written from the front.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

template <typename Function>
Function* OfLibc(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

void Log(const std::string& what, const std::string& path, const std::string& place) {
  const char* log = std::getenv("SOK_TEST_SYNCS");
  struct stat state{};
  const long long bytes = stat(path.c_str(), &state) == 0 ? state.st_size : -1;
  const std::string line = what + '\t' + path + '\t' + place + '\t' + std::to_string(bytes) + '\n';
  const int file = log ? open(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
  if (file < 0 || write(file, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    std::abort();
  close(file);
}

}  // namespace

extern "C" int fsync(int file) {
  const int result = OfLibc<int(int)>("fsync")(file);
  char path[PATH_MAX + 1] = "";
  const std::string link = "/proc/self/fd/" + std::to_string(file);
  if (readlink(link.c_str(), path, PATH_MAX) < 0) std::abort();
  if (result == 0) Log("sync", path, "");
  return result;
}

extern "C" int rename(const char* path, const char* place) noexcept {
  Log("rename", path, place);
  return OfLibc<int(const char*, const char*)>("rename")(path, place);
}
