// SPDX-License-Identifier: Apache-2.0
// The same tests for each transport: order, sizes, and ranks that are late, leave, or die.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <map>
#include <mutex>

#include "ops/tests/check.h"
#include "ops/tests/exchange/rank_numbers.h"
#include "ops/tests/exchange/transports.h"

namespace sok::testing {
namespace {

/// Keeps what arrives.
class Inbox : public Receiver {
 public:
  void Receive(int source, std::string_view message, bool is_cut) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    CHECK_TRUE(!is_cut);
    CHECK_EQ(left_.count(source), size_t{0});
    from_[source].emplace_back(message);
    changed_.notify_all();
  }
  void Left(int source) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    CHECK_EQ(++left_[source], 1);
    changed_.notify_all();
  }

  bool IsWaiting() const override { return is_waiting_; }
  void SetWaiting(bool is_waiting) { is_waiting_ = is_waiting; }

  /// The messages of a rank, once there are `count`.
  std::vector<std::string> From(int source, size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    const bool have_come = changed_.wait_for(lock, std::chrono::seconds(60),
                                             [&] { return from_[source].size() >= count; });
    CHECK_TRUE(have_come);
    return std::exchange(from_[source], {});
  }
  size_t NumLeft() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return left_.size();
  }
  void AwaitLeaving(int source) {
    std::unique_lock<std::mutex> lock(mutex_);
    const bool has_left =
        changed_.wait_for(lock, std::chrono::seconds(60), [&] { return left_.count(source) > 0; });
    CHECK_TRUE(has_left);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int, std::vector<std::string>> from_;
  std::map<int, int> left_;
  std::atomic<bool> is_waiting_{false};
};

/// Sends a copy, in pieces.
void Send(Transport& transport, int destination, const std::string& message) {
  const auto kept = std::make_shared<const std::string>(message);
  const std::string_view view(*kept);
  const size_t third = view.size() / 3;
  transport.Send(destination, {view.substr(0, third), view.substr(third, 0), view.substr(third)},
                 kept);
}

/// Long enough to distinguish messages, including their ends.
std::string MessageOf(int source, int destination, size_t number, size_t size) {
  std::string message = std::to_string(source) + ">" + std::to_string(destination) + ":" +
                        std::to_string(number) + ".";
  for (size_t i = message.size(); i < size; ++i)
    message.push_back(static_cast<char>('a' + (i + number) % 26));
  return message;
}

void SendFromAll(const Transports& ranks, int num_ranks, size_t count, size_t largest) {
  std::vector<std::thread> threads;
  for (int source = 0; source < num_ranks; ++source) {
    for (int destination = 0; destination < num_ranks; ++destination) {
      if (destination == source) continue;
      threads.emplace_back([&, source, destination] {
        for (size_t i = 0; i < count; ++i)
          Send(*ranks[source], destination, MessageOf(source, destination, i, i * 7919 % largest));
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
}

void CheckAll(std::vector<Inbox>& inboxes, size_t count, size_t largest, int left = -1) {
  const int num_ranks = static_cast<int>(inboxes.size());
  for (int destination = 0; destination < num_ranks; ++destination) {
    if (destination == left) continue;
    for (int source = 0; source < num_ranks; ++source) {
      if (source == destination) continue;
      const auto messages = inboxes[static_cast<size_t>(destination)].From(source, count);
      CHECK_EQ(messages.size(), count);
      for (size_t i = 0; i < count; ++i)
        CHECK_TRUE(messages[i] == MessageOf(source, destination, i, i * 7919 % largest));
    }
  }
}

void StartAll(Transports& ranks, std::vector<Inbox>& inboxes) {
  for (size_t rank = 0; rank < inboxes.size(); ++rank)
    ranks[static_cast<int>(rank)]->Start(&inboxes[rank]);
  ranks.Drive();
}

SOK_TEST(MessagesArriveWholeAndInOrder) {
  for (const TransportKind kind : kTransportKinds) {
    for (const int num_ranks : {2, 4}) {
      std::vector<Inbox> inboxes(static_cast<size_t>(num_ranks));
      // Rings of one page, which many messages fill, and into which some do not fit.
      Transports ranks(kind, num_ranks, 1, 1 << 14);
      StartAll(ranks, inboxes);
      SendFromAll(ranks, num_ranks, 100, 6000);
      CheckAll(inboxes, 100, 6000);
      SendFromAll(ranks, num_ranks, 300, 100);
      CheckAll(inboxes, 300, 100);
    }
  }
}

SOK_TEST(MessagesOfAnySize) {
  std::vector<std::string> sent = {"", "x"};
  for (const size_t size : {(1 << 16) - 8, (1 << 16) - 7, 1 << 16, 1 << 20})
    sent.push_back(MessageOf(0, 2, size, size));
  std::string large;
  for (int mebibytes = 0; mebibytes < 25; ++mebibytes) large += sent.back();
  sent.push_back(large);
  for (const TransportKind kind : kTransportKinds) {
    std::vector<Inbox> inboxes(3);
    Transports ranks(kind, 3);
    StartAll(ranks, inboxes);
    for (const std::string& message : sent) Send(*ranks[0], 2, message);
    CHECK_TRUE(inboxes[2].From(0, sent.size()) == sent);
  }
}

/// Messages sent before a rank listens are delivered later.
SOK_TEST(ARankThatIsLate) {
  for (const TransportKind kind : kTransportKinds) {
    std::vector<Inbox> inboxes(2);
    Transports ranks(kind, 2, 1);
    ranks[0]->Start(&inboxes[0]);
    for (size_t i = 0; i < 100; ++i) Send(*ranks[0], 1, MessageOf(0, 1, i, 500));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ranks[1]->Start(&inboxes[1]);
    ranks.Drive();
    const auto messages = inboxes[1].From(0, 100);
    for (size_t i = 0; i < 100; ++i) CHECK_TRUE(messages[i] == MessageOf(0, 1, i, 500));
  }
}

/// Others receive everything that a rank sent before it left, and then learn that it left. What was
/// on its way to that rank may be lost.
SOK_TEST(ARankThatLeavesInTheMiddle) {
  for (const TransportKind kind : kTransportKinds) {
    for (const int leaving : {0, 3}) {
      std::vector<Inbox> inboxes(4);
      Transports ranks(kind, 4, 1);
      StartAll(ranks, inboxes);
      SendFromAll(ranks, 4, 50, 3000);
      ranks[leaving]->Close();
      for (int rank = 0; rank < 4; ++rank) {
        if (rank != leaving) inboxes[static_cast<size_t>(rank)].AwaitLeaving(leaving);
      }
      CheckAll(inboxes, 50, 3000, leaving);
    }
  }
}

/// An awaited message may be sent after a third rank has left.
SOK_TEST(ARankThatWaitsWhenAnotherHasLeft) {
  for (const TransportKind kind : kTransportKinds) {
    std::vector<Inbox> inboxes(4);
    Transports ranks(kind, 4, 1);
    inboxes[2].SetWaiting(true);
    StartAll(ranks, inboxes);
    ranks[3]->Close();
    for (size_t rank = 0; rank < 3; ++rank) inboxes[rank].AwaitLeaving(3);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    Send(*ranks[0], 2, "late");
    CHECK_EQ(inboxes[2].From(0, 1).front(), "late");
    inboxes[2].SetWaiting(false);
  }
}

SOK_TEST(RanksThatLiveAreNotSilent) {
  for (const TransportKind kind : kTransportKinds) {
    std::vector<Inbox> inboxes(2);
    Transports ranks(kind, 2);
    StartAll(ranks, inboxes);
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    for (int rank = 0; rank < 2; ++rank) {
      CHECK_TRUE(ranks[rank]->SilentSeconds() < 0.4);
      CHECK_EQ(ranks[rank]->failure(), "");
    }
  }
}

/// What the other ranks see of a death where rounds are made: the round does not end. Its caller's
/// all-to-all fails, or is given up after a time.
SOK_TEST(ARankThatDiesBetweenRounds) {
  for (const TransportKind kind : {TransportKind::kAllToAll, TransportKind::kByHost}) {
    std::vector<Inbox> inboxes(4);
    Transports ranks(kind, 4);
    StartAll(ranks, inboxes);
    Send(*ranks[3], 0, "the last message");
    CHECK_EQ(inboxes[0].From(3, 1).front(), "the last message");
    ranks.Kill(3);
    for (int rank = 0; rank < 3; ++rank) {
      for (int i = 0; i < 6000 && ranks[rank]->SilentSeconds() < 0.5; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      CHECK_TRUE(ranks[rank]->SilentSeconds() >= 0.5);
      CHECK_EQ(inboxes[static_cast<size_t>(rank)].NumLeft(), size_t{0});
    }
    Send(*ranks[0], 1, "a message that waits for the round");  // not lost, and nothing blocks
  }
}

/// Before this process starts any thread, as it forks.
SOK_TEST(AProcessThatDies) {
  int to_parent[2];
  int to_child[2];
  CHECK_TRUE(pipe(to_parent) == 0 && pipe(to_child) == 0);
  const pid_t child = fork();
  const int rank = child == 0 ? 1 : 0;
  Inbox inbox;
  SharedMemoryTransport transport(rank, RankNumbers(2), 1 << 16);
  std::vector<SharedMemoryAddress> addresses(2);
  addresses[static_cast<size_t>(rank)] = transport.address();
  const SharedMemoryAddress own = transport.address();
  CHECK_TRUE(write(rank == 0 ? to_child[1] : to_parent[1], &own, sizeof(own)) == sizeof(own));
  SharedMemoryAddress& other = addresses[static_cast<size_t>(1 - rank)];
  CHECK_TRUE(read(rank == 0 ? to_parent[0] : to_child[0], &other, sizeof(other)) == sizeof(other));
  transport.Connect(addresses);
  transport.Start(&inbox);
  Send(transport, 1 - rank, "hello");
  CHECK_EQ(inbox.From(1 - rank, 1).front(), "hello");
  if (child == 0) pause();  // until it is killed
  Send(transport, 1, "a message that stays in the ring");
  kill(child, SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(600));
  CHECK_TRUE(transport.SilentSeconds() > 0.3);
  CHECK_EQ(transport.failure(), "");
  kill(child, SIGKILL);  // without waiting for it, so it stays a zombie
  for (int i = 0; i < 6000 && transport.failure().empty(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  CHECK_EQ(transport.failure(), "the process of rank 1 has ended");
  waitpid(child, nullptr, 0);
}

SOK_TEST(MemoryOfSomethingElseIsRefused) {
  const auto connect = [](const SharedMemoryAddress& other) {
    SharedMemoryTransport transport(0, RankNumbers(2), 1 << 16);
    transport.Connect({transport.address(), other});
  };
  const SharedMemoryAddress closed = SharedMemoryTransport(1, RankNumbers(2), 1 << 16).address();
  const SharedMemoryTransport larger(1, RankNumbers(2), 1 << 17);
  const SharedMemoryTransport other(1, RankNumbers(2), 1 << 16);
  SharedMemoryAddress wrong = other.address();
  ++wrong.token;
  for (const SharedMemoryAddress& address : {closed, larger.address(), wrong}) {
    CHECK_THROWS(ErrorCode::kIo, {"memory of rank 1"}, connect(address));
  }
}

/// A round that lacks a rank's message, or has invalid flags.
SOK_TEST(BytesThatAreNoRound) {
  AllToAllOptions options;
  options.num_ranks = 2;
  options.heartbeat_seconds = 0.0;
  AllToAllTransport transport(options);
  Inbox inbox;
  transport.Start(&inbox);
  transport.Next();
  CHECK_THROWS(ErrorCode::kIo, {"rank 1"}, transport.Take({"", ""}));
}

}  // namespace
}  // namespace sok::testing

// The forking test comes first.
int main() {
  auto& tests = sok::testing::Tests();
  for (auto& test : tests) {
    if (std::string(test.name) == "AProcessThatDies") std::swap(test, tests.front());
  }
  return sok::testing::RunTests();
}
