// SPDX-License-Identifier: Apache-2.0
#include "ops/exchange/transport/mpi_port.h"

#include <string>

#include "ops/base/error.h"

namespace sok {
namespace {

constexpr int kTag = 0;
constexpr int kLongestText = 1 << 12;  // more than any MPI_MAX_ERROR_STRING

/// Larger than that of any MPI.
struct alignas(8) Status {
  char bytes[64];
};

/// MPI's functions where its handles are integers (MPICH), or where they are pointers (Open MPI).
template <typename Handle>
struct Functions {
  explicit Functions(const MpiLibrary& library)
      : communicator(*static_cast<const Handle*>(library.communicator)),
        byte_type(*static_cast<const Handle*>(library.byte_type)),
        any_source(static_cast<int>(library.any_source)),
        isend(reinterpret_cast<Isend>(library.isend)),
        test(reinterpret_cast<Test>(library.test)),
        improbe(reinterpret_cast<Improbe>(library.improbe)),
        imrecv(reinterpret_cast<Imrecv>(library.imrecv)),
        get_count(reinterpret_cast<GetCount>(library.get_count)),
        error_string(reinterpret_cast<ErrorString>(library.error_string)) {}

  void Check(int code) const {
    if (code == 0) return;
    char text[kLongestText] = "";
    int size = 0;
    error_string(code, text, &size);
    Throw(ErrorCode::kIo, "MPI says: ", std::string(text, static_cast<size_t>(size)));
  }

  using Isend = int (*)(const void*, int, Handle, int, int, Handle, Handle*);
  using Test = int (*)(Handle*, int*, Status*);
  using Improbe = int (*)(int, int, Handle, int*, Handle*, Status*);
  using Imrecv = int (*)(void*, int, Handle, Handle*, Handle*);
  using GetCount = int (*)(const Status*, Handle, int*);
  using ErrorString = int (*)(int, char*, int*);

  const Handle communicator;
  const Handle byte_type;
  const int any_source;
  const Isend isend;
  const Test test;
  const Improbe improbe;
  const Imrecv imrecv;
  const GetCount get_count;
  const ErrorString error_string;
};

template <typename Handle>
class Operation : public MpiOperation {
 public:
  explicit Operation(const Functions<Handle>& functions) : functions_(functions) {}

  Handle* request() { return &request_; }

  bool HasEnded() override {
    int has_ended = 0;
    Status status;
    functions_.Check(functions_.test(&request_, &has_ended, &status));
    return has_ended != 0;
  }

 private:
  const Functions<Handle>& functions_;
  Handle request_{};
};

template <typename Handle>
class Port : public MpiPort {
 public:
  explicit Port(const MpiLibrary& library) : functions_(library) {}

  std::unique_ptr<MpiOperation> Send(int destination, const MpiBuffer& bytes) override {
    auto operation = std::make_unique<Operation<Handle>>(functions_);
    functions_.Check(functions_.isend(bytes.data(), static_cast<int>(bytes.size()),
                                      functions_.byte_type, destination, kTag,
                                      functions_.communicator, operation->request()));
    return operation;
  }

  std::unique_ptr<MpiOperation> Receive(MpiBuffer* bytes) override {
    int has_come = 0;
    int size = 0;
    Handle message{};
    Status status;
    functions_.Check(functions_.improbe(functions_.any_source, kTag, functions_.communicator,
                                        &has_come, &message, &status));
    if (has_come == 0) return nullptr;
    functions_.Check(functions_.get_count(&status, functions_.byte_type, &size));
    bytes->Resize(static_cast<size_t>(size));
    auto operation = std::make_unique<Operation<Handle>>(functions_);
    functions_.Check(functions_.imrecv(bytes->data(), size, functions_.byte_type, &message,
                                       operation->request()));
    return operation;
  }

 private:
  const Functions<Handle> functions_;
};

}  // namespace

std::unique_ptr<MpiPort> MakeMpiPort(const MpiLibrary& library) {
  if (library.handle_bytes == sizeof(int)) return std::make_unique<Port<int>>(library);
  if (library.handle_bytes == sizeof(void*)) return std::make_unique<Port<void*>>(library);
  Throw(ErrorCode::kIo, "MPI has handles of ", library.handle_bytes, " bytes");
}

}  // namespace sok
