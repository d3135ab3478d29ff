// SPDX-License-Identifier: Apache-2.0
// ragged-all-to-all: sends rows [first[k], first[k] + count[k]) of the operand to member k, which stores them from row
// place[k] on. A header tells each member how many rows it receives and their position. All messages are as long as the
// longest in the group, whose length is determined first.
#include <vector>

#include "executable/collective_step.h"

namespace tessera {
namespace {

struct Header {
  std::int64_t place = 0;
  std::int64_t count = 0;
};

class RaggedExchangeStep final : public CollectiveStep {
 public:
  using CollectiveStep::CollectiveStep;

 private:
  enum Operand : std::size_t { kRows, kRoom, kFirst, kCount, kPlace };

  // Negative entries count as 0, as in the reference evaluation.
  [[nodiscard]] std::int64_t entry(const Frame& frame, Operand operand, std::int64_t member) const {
    const std::byte* list = frame[in_[operand]];
    return visit_dtype(types_[operand].dtype(), [&]<class T>() -> std::int64_t {
      if constexpr (std::is_integral_v<T>) {
        return std::max<std::int64_t>(static_cast<std::int64_t>(reinterpret_cast<const T*>(list)[member]), 0);
      } else {
        throw InternalError("ragged-all-to-all's lists hold integers");
      }
    });
  }
  [[nodiscard]] std::int64_t first(const Frame& frame, std::int64_t member) const {
    return std::min(entry(frame, kFirst, member), types_[kRows].dim(0));
  }
  [[nodiscard]] std::int64_t count(const Frame& frame, std::int64_t member) const {
    return std::min(entry(frame, kCount, member), types_[kRows].dim(0) - first(frame, member));
  }
  [[nodiscard]] std::int64_t longest_of_group(const Frame& frame) const {
    std::int64_t own = 0;
    for (std::int64_t member = 0; member < parts(); ++member) own = std::max(own, count(frame, member));
    if (parts() == 1) return own;
    std::int64_t longest = 0;
    group_.all_reduce(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(&longest, 1)), DType::kS64,
                      Reduction::kMax, label_);
    return longest;
  }

  void exchange(const Frame& frame) const override {
    const auto room = static_cast<std::size_t>(types_[kRoom].byte_size());
    if (frame[out_[0]] != frame[in_[kRoom]] && room > 0) std::memcpy(frame[out_[0]], frame[in_[kRoom]], room);
    const std::int64_t rows = types_[kRows].dim(0);
    const std::int64_t row_bytes = rows == 0 ? 0 : types_[kRows].byte_size() / rows;
    const std::int64_t part = static_cast<std::int64_t>(sizeof(Header)) + longest_of_group(frame) * row_bytes;
    std::vector<std::byte> sent(static_cast<std::size_t>(part * parts()));
    for (std::int64_t member = 0; member < parts(); ++member) {
      const Header header{entry(frame, kPlace, member), count(frame, member)};
      std::memcpy(&sent[static_cast<std::size_t>(member * part)], &header, sizeof(Header));
      const std::byte* from = frame[in_[kRows]] + first(frame, member) * row_bytes;
      if (header.count * row_bytes > 0)
        std::memcpy(&sent[static_cast<std::size_t>(member * part) + sizeof(Header)], from,
                    static_cast<std::size_t>(header.count * row_bytes));
    }
    if (parts() == 1) return place(frame, sent, part, row_bytes);
    std::vector<std::byte> received(sent.size());
    group_.all_to_all(sent, received, label_);
    place(frame, received, part, row_bytes);
  }

  // Processes the members in order: if rows overlap, those of the last member remain.
  void place(const Frame& frame, const std::vector<std::byte>& received, std::int64_t part,
             std::int64_t row_bytes) const {
    const std::int64_t room = types_[kRoom].dim(0);
    for (std::int64_t member = 0; member < parts(); ++member) {
      const std::byte* message = &received[static_cast<std::size_t>(member * part)];
      Header header;
      std::memcpy(&header, message, sizeof(Header));
      const std::int64_t start = std::min(header.place, room);
      const std::int64_t bytes = std::min(header.count, room - start) * row_bytes;
      if (bytes > 0)
        std::memcpy(frame[out_[0]] + start * row_bytes, message + sizeof(Header), static_cast<std::size_t>(bytes));
    }
  }
};

}  // namespace

std::unique_ptr<PlanStep> make_ragged_exchange_step(CompileContext& context, const Schedule& schedule, const Step& step,
                                                    std::shared_ptr<ProcessGroup> group, const std::string& axes) {
  ProcessGroup& of = *group;
  return std::make_unique<RaggedExchangeStep>(context, schedule, step, std::move(group), of, axes);
}

}  // namespace tessera
