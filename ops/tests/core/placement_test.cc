// SPDX-License-Identifier: Apache-2.0
// Every key has one owner, and one local key there, from which the key can be recovered.
#include "ops/base/placement.h"

#include <set>

#include "ops/tests/check.h"

namespace sok {
namespace {

Placement Of(Placement::Kind kind, int64_t num_ranks, int64_t rank, int64_t num_keys) {
  Placement placement;
  placement.kind = kind;
  placement.num_ranks = num_ranks;
  placement.rank = rank;
  placement.owner_rank = num_ranks - 1;
  placement.num_keys = num_keys;
  return placement;
}

void CheckEveryKeyHasOneRow(Placement::Kind kind) {
  for (const int64_t num_ranks : {1, 2, 3, 4, 7}) {
    for (const int64_t num_keys : {1, 2, 6, 7, 8, 50}) {
      std::set<std::pair<int64_t, int64_t>> places;  // rank, row
      for (int64_t key = 0; key < num_keys; ++key) {
        int64_t num_owners = 0;
        for (int64_t rank = 0; rank < num_ranks; ++rank) {
          const Placement placement = Of(kind, num_ranks, rank, num_keys);
          if (!placement.IsOwned(key)) continue;
          ++num_owners;
          CHECK_EQ(placement.Owner(key), rank);
          CHECK_EQ(placement.GlobalKey(placement.LocalKey(key)), key);
          CHECK_TRUE(placement.LocalKey(key) >= 0);
          CHECK_TRUE(places.insert({rank, placement.LocalKey(key)}).second);
        }
        CHECK_EQ(num_owners, kind == Placement::Kind::kReplicated ? num_ranks : 1);
      }
    }
  }
}

SOK_TEST(ModuloOfNegativeKeys) {
  const Placement placement = Of(Placement::Kind::kModulo, 3, 0, 0);
  CHECK_EQ(placement.Owner(-1), int64_t{2});
  CHECK_EQ(placement.Owner(-3), int64_t{0});
  CHECK_EQ(placement.Owner(INT64_MIN), int64_t{1});
  CHECK_TRUE(placement.LocalKey(-3) < 0);
}

SOK_TEST(RowsOfKnownKeysByModulo) {
  const int64_t rows[] = {2, 1, 1, 0};  // keys 0 and 3, 1, 2
  for (int64_t rank = 0; rank < 4; ++rank) {
    const Placement placement =
        Of(Placement::Kind::kModulo, rank == 3 ? 4 : 3, rank, rank == 3 ? 3 : 4);
    CHECK_EQ(placement.NumRows(5), rows[rank]);
  }
  CHECK_EQ(Of(Placement::Kind::kModulo, 3, 0, 4).NumRows(1), int64_t{1});
  CHECK_EQ(Of(Placement::Kind::kModulo, 3, 0, 4).KeyLimit(5), int64_t{4});
  CHECK_EQ(Of(Placement::Kind::kModulo, 3, 0, 0).KeyLimit(5), int64_t{15});
}

SOK_TEST(RangesAreEven) {
  const Placement placement = Of(Placement::Kind::kRange, 4, 2, 10);
  const int64_t begins[] = {0, 3, 6, 8, 10};
  for (int64_t rank = 0; rank <= 4; ++rank) CHECK_EQ(placement.RangeBegin(rank), begins[rank]);
  CHECK_EQ(placement.Owner(-5), int64_t{0});
  CHECK_EQ(placement.Owner(10), int64_t{3});
}

SOK_TEST(FewerKeysThanRanks) {
  const Placement placement = Of(Placement::Kind::kRange, 4, 3, 2);
  CHECK_EQ(placement.Owner(0), int64_t{0});
  CHECK_EQ(placement.Owner(1), int64_t{1});
  CHECK_EQ(placement.RangeBegin(3), int64_t{2});
}

SOK_TEST(KeyLimit) {
  CHECK_EQ(Of(Placement::Kind::kModulo, 4, 0, 0).KeyLimit(10), int64_t{40});
  CHECK_EQ(Of(Placement::Kind::kModulo, 4, 0, 0).KeyLimit(INT64_MAX / 2), INT64_MAX);
  CHECK_EQ(Of(Placement::Kind::kOneRank, 4, 0, 0).KeyLimit(10), int64_t{10});
  CHECK_EQ(Of(Placement::Kind::kRange, 4, 0, 33).KeyLimit(10), int64_t{33});
}

SOK_TEST(EveryKeyHasOneRow) {
  using Kind = Placement::Kind;
  for (const Kind kind : {Kind::kModulo, Kind::kOneRank, Kind::kRange, Kind::kReplicated}) {
    CheckEveryKeyHasOneRow(kind);
  }
}

}  // namespace
}  // namespace sok

SOK_TEST_MAIN()
