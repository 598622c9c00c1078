// SPDX-License-Identifier: Apache-2.0
#include "ops/formats/files/file_system.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "ops/base/local_files.h"

namespace sok {
namespace {

/// Owns a descriptor.
class Descriptor {
 public:
  Descriptor(const std::string& path, int flags) : path_(path) {
    descriptor_ = open(path.c_str(), flags | O_CLOEXEC, 0666);
    if (descriptor_ < 0) ThrowOfSystem(path, errno);
  }
  ~Descriptor() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return descriptor_; }
  const std::string& path() const { return path_; }
  void Close() {
    const int descriptor = descriptor_;
    descriptor_ = -1;
    if (descriptor >= 0 && close(descriptor) != 0) ThrowOfSystem(path_, errno);
  }

 private:
  const std::string path_;
  int descriptor_ = -1;
};

class LocalReader : public FileSystem::Reader {
 public:
  explicit LocalReader(const std::string& path) : file_(path, O_RDONLY) {}

  size_t Read(int64_t offset, size_t num_bytes, char* to) const override {
    size_t num_read = 0;
    while (num_read < num_bytes) {
      const ssize_t count = pread(file_.get(), to + num_read, num_bytes - num_read,
                                  offset + static_cast<int64_t>(num_read));
      if (count == 0) break;
      if (count > 0) num_read += static_cast<size_t>(count);
      if (count < 0 && errno != EINTR) ThrowOfSystem(file_.path(), errno);
    }
    return num_read;
  }

 private:
  Descriptor file_;
};

class LocalWriter : public FileSystem::Writer {
 public:
  LocalWriter(const std::string& path, int flags) : file_(path, O_WRONLY | flags) {}

  void Append(const char* data, size_t num_bytes) override {
    while (num_bytes > 0) {
      const ssize_t count = write(file_.get(), data, num_bytes);
      if (count < 0 && errno != EINTR) ThrowOfSystem(file_.path(), errno);
      if (count <= 0) continue;
      data += count;
      num_bytes -= static_cast<size_t>(count);
    }
  }
  void Close() override { file_.Close(); }

 private:
  Descriptor file_;
};

class LocalFileSystem : public FileSystem {
 public:
  std::unique_ptr<Reader> Open(const std::string& path) const override {
    return std::make_unique<LocalReader>(path);
  }
  std::unique_ptr<Writer> Create(const std::string& path) const override {
    return std::make_unique<LocalWriter>(path, O_CREAT | O_TRUNC);
  }
  std::unique_ptr<Writer> Extend(const std::string& path) const override {
    return std::make_unique<LocalWriter>(path, O_APPEND);
  }
  bool Exists(const std::string& path) const override { return access(path.c_str(), F_OK) == 0; }
  bool IsFolder(const std::string& path) const override {
    struct stat state{};
    return stat(path.c_str(), &state) == 0 && S_ISDIR(state.st_mode);
  }
  int64_t Size(const std::string& path) const override {
    struct stat state{};
    if (stat(path.c_str(), &state) != 0) ThrowOfSystem(path, errno);
    return state.st_size;
  }
  void Rename(const std::string& from, const std::string& to) const override {
    if (std::rename(from.c_str(), to.c_str()) != 0) ThrowOfSystem(to, errno);
  }
  void Remove(const std::string& path) const override { unlink(path.c_str()); }
  void MakeFolder(const std::string& path) const override {
    std::error_code error;
    std::filesystem::create_directories(path, error);
    if (error) ThrowOfSystem(path, error.value());
  }
  void RemoveEmptyFolder(const std::string& path) const override { rmdir(path.c_str()); }
  void RemoveFolder(const std::string& path) const override {
    std::error_code error;
    std::filesystem::remove_all(path, error);
  }
  std::vector<std::string> List(const std::string& folder) const override {
    std::error_code error;
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder, error))
      names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }
};

}  // namespace

const FileSystem& FileSystem::Local() {
  static const LocalFileSystem kLocal;
  return kLocal;
}

std::string FileSystem::ReadWhole(const std::string& path) const {
  const std::unique_ptr<Reader> file = Open(path);
  std::string content(static_cast<size_t>(Size(path)), ' ');
  content.resize(file->Read(0, content.size(), content.data()));
  return content;
}

std::string FolderOf(const std::string& path) {
  const size_t end = path.rfind('/');
  if (end == std::string::npos) return ".";
  return end == 0 ? "/" : path.substr(0, end);
}

std::string NameOf(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string Joined(const std::string& folder, const std::string& name) {
  if (folder.empty()) return name;
  return folder.back() == '/' ? folder + name : folder + "/" + name;
}

}  // namespace sok
