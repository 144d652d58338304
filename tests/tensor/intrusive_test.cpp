// Tests of the intrusive handle: who owns the object, when it goes, also across threads.
#include "tensor/base/intrusive.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tensor/base/small_vector.h"

namespace weft {
namespace {

struct Node : RefCounted<Node> {
  explicit Node(int* alive) : alive(alive) { ++*alive; }
  virtual ~Node() { --*alive; }
  int* alive;
};
struct Leaf : Node {
  using Node::Node;
};

struct Pooled : RefCounted<Pooled> {
  static void destroy(Pooled* object) noexcept { object->returned = true; }
  bool returned = false;
};

TEST(Intrusive, IsOnePointerWide) { EXPECT_EQ(sizeof(Intrusive<Node>), 8u); }

TEST(Intrusive, TheLastHandleDestroysTheObject) {
  int alive = 0;
  auto a = make_intrusive<Node>(&alive);
  EXPECT_EQ(a.use_count(), 1u);
  Intrusive<Node> b = a;
  EXPECT_EQ(a.use_count(), 2u);
  EXPECT_EQ(a, b);
  Intrusive<Node> c = std::move(a);
  EXPECT_TRUE(a == nullptr);
  EXPECT_EQ(c.use_count(), 2u);
  b.reset();
  EXPECT_EQ(alive, 1);
  c = nullptr;
  EXPECT_EQ(alive, 0);
}

TEST(Intrusive, SelfAssignmentKeepsTheObject) {
  int alive = 0;
  auto a = make_intrusive<Node>(&alive);
  auto& same = a;
  a = same;
  a = std::move(same);
  EXPECT_EQ(alive, 1);
  EXPECT_EQ(a.use_count(), 1u);
}

TEST(Intrusive, ReleaseAndAdoptMoveOneReference) {
  int alive = 0;
  auto a = make_intrusive<Node>(&alive);
  Node* raw = a.release();
  EXPECT_FALSE(a);
  EXPECT_EQ(raw->use_count(), 1u);
  auto shared = Intrusive<Node>::share(raw);
  EXPECT_EQ(raw->use_count(), 2u);
  auto b = Intrusive<Node>::adopt(raw);
  EXPECT_EQ(b.use_count(), 2u);
}

TEST(Intrusive, ADerivedHandleConverts) {
  int alive = 0;
  Intrusive<Node> base = make_intrusive<Leaf>(&alive);
  EXPECT_EQ(base.use_count(), 1u);
  base.reset();
  EXPECT_EQ(alive, 0);
}

TEST(Intrusive, ATypeMayBringItsOwnDestroy) {
  Pooled pooled;
  { auto handle = Intrusive<Pooled>::adopt(&pooled); }
  EXPECT_TRUE(pooled.returned);
}

TEST(Intrusive, LivesInASmallVector) {
  int alive = 0;
  SmallVector<Intrusive<Node>, 2> nodes;
  for (int i = 0; i < 7; ++i) nodes.push_back(make_intrusive<Node>(&alive));
  nodes.erase(nodes.begin() + 1, nodes.begin() + 4);
  EXPECT_EQ(alive, 4);
  nodes.clear();
  EXPECT_EQ(alive, 0);
}

TEST(Intrusive, ThreadsThatShareAnObjectDestroyItOnce) {
  int alive = 0;
  auto handle = make_intrusive<Node>(&alive);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([copy = handle] {
      for (int i = 0; i < 2000; ++i) Intrusive<Node> another = copy;
    });
  }
  handle.reset();
  for (auto& thread : threads) thread.join();
  threads.clear();
  EXPECT_EQ(alive, 0);
}

}  // namespace
}  // namespace weft
