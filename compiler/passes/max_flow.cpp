// Dinic: blocking flows in level graphs, without recursion.
// Place: the out-of-line half of compiler/passes/max_flow.h.
#include "compiler/passes/max_flow.h"

#include <algorithm>

namespace weft::compiler {

namespace {
constexpr uint32_t kNoLevel = ~uint32_t{0};
}  // namespace

void MaxFlow::add_edge(Vertex from, Vertex to, int64_t capacity) {
  edges_of_[from].push_back(static_cast<uint32_t>(edges_.size()));
  edges_.push_back({to, capacity});
  edges_of_[to].push_back(static_cast<uint32_t>(edges_.size()));
  edges_.push_back({from, 0});
}

bool MaxFlow::find_levels() {
  level_.assign(edges_of_.size(), kNoLevel);
  level_[source_] = 0;
  std::vector<Vertex> order = {source_};
  for (size_t i = 0; i < order.size(); ++i) {
    for (const uint32_t e : edges_of_[order[i]]) {
      const Edge& edge = edges_[e];
      if (edge.left == 0 || level_[edge.to] != kNoLevel) continue;
      level_[edge.to] = level_[order[i]] + 1;
      order.push_back(edge.to);
    }
  }
  return level_[sink_] != kNoLevel;
}

// One path from source to sink, and what it carries; 0 where there is none left.
int64_t MaxFlow::push_along_levels() {
  std::vector<uint32_t> path;
  Vertex at = source_;
  while (at != sink_) {
    uint32_t& next = next_[at];
    while (next < edges_of_[at].size()) {
      const Edge& edge = edges_[edges_of_[at][next]];
      if (edge.left > 0 && level_[edge.to] == level_[at] + 1) break;
      ++next;
    }
    if (next < edges_of_[at].size()) {
      path.push_back(edges_of_[at][next]);
      at = edges_[path.back()].to;
      continue;
    }
    if (path.empty()) return 0;
    at = edges_[path.back() ^ 1].to;
    path.pop_back();
    ++next_[at];
  }
  int64_t amount = kUnlimited;
  for (const uint32_t e : path) amount = std::min(amount, edges_[e].left);
  for (const uint32_t e : path) {
    edges_[e].left -= amount;
    edges_[e ^ 1].left += amount;
  }
  return amount;
}

int64_t MaxFlow::run(Vertex source, Vertex sink) {
  source_ = source;
  sink_ = sink;
  int64_t total = 0;
  while (total < kUnlimited && find_levels()) {
    next_.assign(edges_of_.size(), 0);
    while (const int64_t amount = push_along_levels()) {
      total += amount;
      if (total >= kUnlimited) break;
    }
  }
  return total;
}

std::vector<bool> MaxFlow::sink_side() const {
  std::vector<bool> reaches(edges_of_.size());
  reaches[sink_] = true;
  std::vector<Vertex> open = {sink_};
  while (!open.empty()) {
    const Vertex at = open.back();
    open.pop_back();
    for (const uint32_t e : edges_of_[at]) {
      // The edge that leads here is the reverse of the one that leads away.
      const Vertex from = edges_[e].to;
      if (edges_[e ^ 1].left == 0 || reaches[from]) continue;
      reaches[from] = true;
      open.push_back(from);
    }
  }
  return reaches;
}

}  // namespace weft::compiler
