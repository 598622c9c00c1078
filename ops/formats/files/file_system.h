// SPDX-License-Identifier: Apache-2.0
// What readers and writers of formats need of a file system. Of this machine: Local; the op library
// has TensorFlow's, which know others, too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace sok {

/// All methods throw kNotFound, kPermissionDenied, kNoSpace and kIo, naming the file.
class FileSystem {
 public:
  /// An open file, for any number of threads.
  class Reader {
   public:
    virtual ~Reader() = default;
    /// Returns how many bytes it has read: fewer at the end of the file.
    virtual size_t Read(int64_t offset, size_t num_bytes, char* to) const = 0;
  };
  class Writer {
   public:
    virtual ~Writer() = default;
    virtual void Append(const char* data, size_t num_bytes) = 0;
    virtual void Close() = 0;
  };

  virtual ~FileSystem() = default;

  virtual std::unique_ptr<Reader> Open(const std::string& path) const = 0;
  virtual std::unique_ptr<Writer> Create(const std::string& path) const = 0;
  /// To append to a file that exists.
  virtual std::unique_ptr<Writer> Extend(const std::string& path) const = 0;
  virtual bool Exists(const std::string& path) const = 0;
  virtual bool IsFolder(const std::string& path) const = 0;
  virtual int64_t Size(const std::string& path) const = 0;
  virtual void Rename(const std::string& from, const std::string& to) const = 0;
  /// Does nothing where that is impossible.
  virtual void Remove(const std::string& path) const = 0;
  virtual void MakeFolder(const std::string& path) const = 0;
  /// With all in it; does nothing where that is impossible.
  virtual void RemoveFolder(const std::string& path) const = 0;
  virtual void RemoveEmptyFolder(const std::string& path) const = 0;
  /// Ascending names of what a folder holds; none where that is unknown.
  virtual std::vector<std::string> List(const std::string& folder) const = 0;

  /// The content of a small file.
  std::string ReadWhole(const std::string& path) const;

  static const FileSystem& Local();
};

/// The folder of a file, "." if it has none; and its name in there.
std::string FolderOf(const std::string& path);
std::string NameOf(const std::string& path);
/// A path below a folder.
std::string Joined(const std::string& folder, const std::string& name);

}  // namespace sok
