// SPDX-License-Identifier: Apache-2.0
// Which requests came together in earlier steps, so that each waits for the others. Knows nothing
// of ranks.
#ifndef SOK_OPS_EXCHANGE_COMPANIONS_H_
#define SOK_OPS_EXCHANGE_COMPANIONS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace sok {

class Companions {
 public:
  struct Request {
    int64_t step = 0;
    std::string kind;  // requests of one kind may be able to go together
    std::string name;
  };

  /// The names that are expected together with this one, itself among them; null: not known.
  const std::set<std::string>* Of(const std::string& name) const;

  /// Names of this kind that were exchanged in a step, if no other step's have been since.
  const std::set<std::string>& Exchanged(int64_t step, const std::string& kind) const;

  /// Learns from the requests of one exchange.
  void Learn(const std::vector<Request>& requests);

 private:
  struct Group {
    int64_t step = -1;
    std::set<std::string> names;
  };
  struct Expected {
    std::shared_ptr<const std::set<std::string>> names;  // expected to come together; all have it
    bool is_trial = false;                               // they have not yet
  };

  void LearnGroup(Group group, Group* last);

  std::map<std::string, Expected> expected_;  // by name
  std::map<std::string, int> trials_left_;    // how often a name may be tried in a larger group
  std::map<std::string, Group> last_groups_;  // by kind
};

}  // namespace sok

#endif  // SOK_OPS_EXCHANGE_COMPANIONS_H_
