// SPDX-License-Identifier: Apache-2.0
// Carries messages between ranks. Independent of lookups; one implementation per file.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "ops/exchange/outgoing.h"

namespace sok {

/// Receives messages from a transport. Called by threads of the transport, one at a time per
/// source.
class Receiver {
 public:
  virtual ~Receiver() = default;
  /// A message, in the order in which its source sent them; valid until this returns. is_cut:
  /// memory for the whole message was refused, and only its first bytes, up to kCutBytes, are
  /// present.
  virtual void Receive(int source, std::string_view message, bool is_cut) = 0;
  /// The rank has closed its transport; all its messages have been delivered.
  virtual void Left(int source) = 0;
  /// Whether it still expects messages, from ranks that have not left.
  virtual bool IsWaiting() const = 0;

  static constexpr size_t kCutBytes = 1 << 16;
};

class Transport {
 public:
  virtual ~Transport() = default;

  /// Starts delivering. `receiver` must outlive this transport.
  virtual void Start(Receiver* receiver) = 0;

  /// Sends a message to another rank, without waiting; from any thread. Messages of one thread to
  /// one rank arrive in order. `memory` keeps the pieces alive.
  virtual void Send(int destination, Pieces message, std::shared_ptr<const void> memory) = 0;

  /// Tells the other ranks that this one sends nothing more; Send must not be called afterwards.
  /// Messages on their way to this rank may be lost.
  virtual void Close() = 0;

  /// Seconds since the last sign of life of other ranks; 0 if unknown.
  virtual double SilentSeconds() const = 0;

  /// Why messages can no longer be carried; empty otherwise.
  virtual std::string failure() const = 0;
};

}  // namespace sok
