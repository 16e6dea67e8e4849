// Plays a program with no network: every rank's woven ends, one message at a time, in a random order of what may
// happen. A send is over some time after its message arrived, and its bytes must still be there then: the net may send
// them again.
#pragma once

#include <algorithm>
#include <random>
#include <vector>

#include "bench/programs/weave.h"
#include "check.h"

namespace r2cc::test {

class Play {
 public:
  Play(const bench::Sequence& sequence, int ranks, uint64_t elements, uint64_t seed, int times = 1)
      : edges_(sequence.edges), random_(seed), times_(times) {
    for (int rank = 0; rank < ranks; rank++) {
      ends_.push_back(bench::weave(sequence, rank, times));
      done_.emplace_back(ends_.back().size(), 0);
      data_.emplace_back(elements, static_cast<double>(uint64_t{1} << (6 * rank)));  // who contributed, and how often
    }
    for (uint32_t edge = 0; edge < edges_.size(); edge++) {
      out_.push_back(find(edges_[edge].from, edge));
      in_.push_back(find(edges_[edge].to, edge));
      CHECK(endOf(edges_[edge].from, out_[edge]).sends && !endOf(edges_[edge].to, in_[edge]).sends);
      CHECK_EQ(endOf(edges_[edge].from, out_[edge]).messages.size(), endOf(edges_[edge].to, in_[edge]).messages.size());
    }
  }

  // False when nothing can happen although something is left: a deadlock.
  bool run() {
    std::vector<uint32_t> order;
    for (uint32_t edge = 0; edge < edges_.size(); edge++) order.push_back(edge);
    while (!finished()) {
      std::shuffle(order.begin(), order.end(), random_);
      bool moved = false;
      for (const uint32_t edge : order) moved |= random_() % 2 == 0 ? deliver(edge) : finishSend(edge);
      for (size_t i = 0; !moved && i < order.size(); i++) moved = deliver(order[i]) || finishSend(order[i]);
      if (!moved) return false;
    }
    return true;
  }

  const std::vector<double>& dataOf(int rank) const { return data_[static_cast<size_t>(rank)]; }

 private:
  bench::End& endOf(int rank, size_t end) { return ends_[static_cast<size_t>(rank)][end]; }
  uint64_t& doneOf(int rank, size_t end) { return done_[static_cast<size_t>(rank)][end]; }

  size_t find(int rank, uint32_t edge) const {
    const auto& ends = ends_[static_cast<size_t>(rank)];
    size_t end = 0;
    while (end < ends.size() && ends[end].edge != edge) end++;
    CHECK(end < ends.size());
    return end;
  }

  bool finished() const {
    for (size_t rank = 0; rank < ends_.size(); rank++) {
      for (size_t end = 0; end < ends_[rank].size(); end++) {
        if (done_[rank][end] < ends_[rank][end].messages.size()) return false;
      }
    }
    return true;
  }

  bool met(int rank, const bench::Message& message) {
    for (const bench::Need& need : message.needs) {
      if (doneOf(rank, need.end) < need.count) return false;
    }
    return true;
  }

  bool turnHasCome(int rank, const bench::Message& message) {
    for (size_t end = 0; end < ends_[static_cast<size_t>(rank)].size(); end++) {
      if (doneOf(rank, end) < endOf(rank, end).messages.size() / static_cast<size_t>(times_) * message.turn)
        return false;
    }
    return true;
  }

  bool deliver(uint32_t edge) {
    const auto [from, to] = edges_[edge];
    const uint64_t number = doneOf(to, in_[edge]);
    if (number == endOf(to, in_[edge]).messages.size() || number > doneOf(from, out_[edge])) return false;
    const bench::Message& out = endOf(from, out_[edge]).messages[number];
    const bench::Message& in = endOf(to, in_[edge]).messages[number];
    if (!met(from, out) || !met(to, in) || !turnHasCome(from, out)) return false;
    CHECK_EQ(out.bytes, in.bytes);
    CHECK_EQ(out.offset, in.offset);  // AllReduce moves nothing to another place
    for (size_t i = out.offset / sizeof(float); i < (out.offset + out.bytes) / sizeof(float); i++) {
      double& mine = data_[static_cast<size_t>(to)][i];
      mine = data_[static_cast<size_t>(from)][i] + (in.action == bench::Action::Reduce ? mine : 0.0);
    }
    copies_.resize(edges_.size());
    const auto& source = data_[static_cast<size_t>(from)];
    const auto first = source.begin() + static_cast<ptrdiff_t>(out.offset / sizeof(float));
    copies_[edge].assign(first, first + static_cast<ptrdiff_t>(out.bytes / sizeof(float)));
    doneOf(to, in_[edge])++;
    return true;
  }

  bool finishSend(uint32_t edge) {
    const auto [from, to] = edges_[edge];
    uint64_t& sent = doneOf(from, out_[edge]);
    if (sent == doneOf(to, in_[edge])) return false;
    const bench::Message& message = endOf(from, out_[edge]).messages[sent];
    const auto& source = data_[static_cast<size_t>(from)];
    const auto first = source.begin() + static_cast<ptrdiff_t>(message.offset / sizeof(float));
    CHECK(std::equal(copies_[edge].begin(), copies_[edge].end(), first));
    sent++;
    return true;
  }

  std::vector<bench::Edge> edges_;
  std::mt19937_64 random_;
  int times_;
  std::vector<std::vector<bench::End>> ends_;
  std::vector<std::vector<uint64_t>> done_;
  std::vector<std::vector<double>> data_;
  std::vector<size_t> out_, in_;  // by edge: its ends' numbers
  std::vector<std::vector<double>> copies_;
};

}  // namespace r2cc::test
