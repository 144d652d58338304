// MaxFlow: the largest flow through a network, and the cheapest set of edges that cuts it.
// Needs base. The partition asks it what to save.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft::compiler {

// Dinic's algorithm on flat arrays; integers, so that equal networks have equal cuts.
class MaxFlow {
 public:
  using Vertex = uint32_t;
  static constexpr int64_t kUnlimited = int64_t{1} << 60;

  explicit MaxFlow(size_t num_vertices) : edges_of_(num_vertices) {}

  void add_edge(Vertex from, Vertex to, int64_t capacity);
  // Sends what can be sent; kUnlimited or more means that no finite cut exists. To be called once.
  int64_t run(Vertex source, Vertex sink);
  // By vertex, after run(): whether it is on the sink's side of the cheapest cut that lies nearest to the sink.
  std::vector<bool> sink_side() const;

 private:
  // An edge and its reverse stand next to each other: e and e ^ 1.
  struct Edge {
    Vertex to;
    int64_t left;  // what it can still carry
  };
  bool find_levels();
  int64_t push_along_levels();

  std::vector<std::vector<uint32_t>> edges_of_;
  std::vector<Edge> edges_;
  std::vector<uint32_t> level_,
      next_;  // by vertex: steps from the source; the first edge that may still lead on
  Vertex source_ = 0, sink_ = 0;
};

}  // namespace weft::compiler
