// Tests of the helpers of a training loop: the progress line, means, the log of steps.
#include <cmath>
#include <sstream>

#include "nn/train/log.h"
#include "nn/train/metrics.h"
#include "nn/train/progress.h"
#include "tests/io/files.h"

namespace weft {
namespace {

struct Screen {
  std::ostringstream out;
  double time = 100;
  train::ProgressOutput output(bool is_terminal) {
    return {&out, is_terminal, [this] { return time; }};
  }
};

TEST(Progress, ATerminalLineIsRedrawnTenTimesASecond) {
  Screen screen;
  train::Progress progress("train", 2000, screen.output(true));
  for (int i = 0; i < 500; ++i) {
    screen.time += 0.001;
    progress.update(1.5, 48);
  }
  const std::string text = screen.out.str();
  EXPECT_LE(std::count(text.begin(), text.end(), '\r'), 5);
  EXPECT_GE(std::count(text.begin(), text.end(), '\r'), 4);
  EXPECT_EQ(text.find('\n'), std::string::npos);
  EXPECT_NE(text.find("  loss 1.5  48,000 items/s  0:02 left\x1b[K"), std::string::npos) << text;
}

TEST(Progress, AFileGetsALineEveryTenSecondsAndTheTotals) {
  Screen screen;
  {
    train::Progress progress("train", 50, screen.output(false));
    for (int i = 0; i < 50; ++i) {
      screen.time += 0.5;
      progress.update(0.25, 4);
    }
  }
  EXPECT_EQ(screen.out.str(),
            "train  20/50  loss 0.25  8.00 items/s  0:15 left\n"
            "train  40/50  loss 0.25  8.00 items/s  0:05 left\n"
            "train  50 steps  loss 0.25  8.00 items/s  25.00 s\n");
}

TEST(Progress, ALossTensorIsReadOnlyWhenTheLineIsDue) {
  Screen screen;
  train::Progress progress("train", 0, screen.output(false));
  // A tensor of two elements cannot be read as a loss: it must not be, between two lines.
  progress.update(counting_tensor({2}, kFloat64));
  Tensor loss = make_tensor({}, kFloat32);
  *data_of<float>(loss) = 0.125f;
  progress.update(loss, 2);
  screen.time += 1;
  progress.finish();
  EXPECT_EQ(screen.out.str(), "train  2 steps  loss 0.125  3.00 items/s  1.00 s\n");
}

TEST(Progress, AnExceptionEndsTheLineWithoutTotals) {
  Screen screen;
  try {
    train::Progress progress("train", 9, screen.output(true));
    screen.time += 1;
    progress.update(1.0);
    throw Error("stop");
  } catch (const Error&) {
  }
  EXPECT_EQ(screen.out.str(), "\rtrain  1/9  loss 1  1.00 items/s  0:08 left\x1b[K\n");
}

TEST(Progress, NothingCountedSaysNothing) {
  Screen screen;
  { const train::Progress progress("train", 9, screen.output(true)); }
  EXPECT_EQ(screen.out.str(), "");
}

TEST(Metrics, AMeanCountsRows) {
  train::Mean mean;
  EXPECT_TRUE(std::isnan(mean.value()));
  mean.add(1.0, 3);
  mean.add(5.0, 1);
  EXPECT_EQ(mean.value(), 2.0);
  EXPECT_EQ(mean.count(), 4);
}

TEST(Metrics, AccuracyCountsRowsWhoseLargestLogitIsTheTarget) {
  Tensor logits = make_tensor({Sym::from_int(3), Sym::from_int(2)}, kFloat32);
  const float values[] = {1, 2, 5, -1, 0, 0.5f};
  std::copy(values, values + 6, data_of<float>(logits));
  Tensor target = make_tensor({Sym::from_int(3)}, kInt64);
  const int64_t classes[] = {1, 1, 1};
  std::copy(classes, classes + 3, data_of<int64_t>(target));
  EXPECT_EQ(train::accuracy(logits, target), 2.0 / 3);
  train::Accuracy accuracy;
  accuracy.add(logits, target);
  accuracy.add(logits.narrow(0, 0, 1), target.narrow(0, 0, 1));
  EXPECT_EQ(accuracy.right(), 3);
  EXPECT_EQ(accuracy.value(), 0.75);
  EXPECT_EQ(error_of([&] { train::accuracy(logits, target.narrow(0, 0, 2)); }),
            "accuracy: the logits are [3, 2] and the target [2]; they should be [n, classes] and [n]");
  EXPECT_EQ(error_of([&] { train::accuracy(logits, target.to(kFloat32)); }),
            "accuracy: the target is float32; it should hold class numbers");
  EXPECT_EQ(error_of([&] { train::accuracy(logits.narrow(0, 0, 0), target.narrow(0, 0, 0)); }),
            "accuracy: there are no rows");
}

TEST(Log, WritesCsvUnderTheNamesOfTheFirstLine) {
  const TemporaryFolder folder;
  train::Log log(folder / "run.csv");
  log.write({{"step", 1}, {"loss", 0.1}, {"note", "a,\"b\""}});
  log.write({{"step", 2}, {"loss", 1e-30}, {"note", ""}});
  EXPECT_EQ(read_file(folder / "run.csv"), "step,loss,note\n1,0.1,\"a,\"\"b\"\"\"\n2,1e-30,\n");
  EXPECT_EQ(error_of([&] {
              log.write({{"step", 3}, {"lr", 0.1}, {"note", ""}});
            }),
            "log: '" + (folder / "run.csv") +
                "' has 'loss' at place 2, not 'lr'; a CSV log keeps the names of its first "
                "line (a .jsonl log need not)");
  EXPECT_EQ(error_of([&] {
              log.write({{"step", 3}});
            }),
            "log: '" + (folder / "run.csv") + "' has 3 columns, but this line 1");
  EXPECT_EQ(read_file(folder / "run.csv"), "step,loss,note\n1,0.1,\"a,\"\"b\"\"\"\n2,1e-30,\n");
}

TEST(Log, WritesJsonLines) {
  const TemporaryFolder folder;
  train::Log log(folder / "run.jsonl");
  log.write({{"step", 1}, {"loss", 0.1}, {"note", "a\"\xff"}});
  log.write({{"nan", std::nan("")}});
  EXPECT_EQ(read_file(folder / "run.jsonl"),
            "{\"step\": 1, \"loss\": 0.1, \"note\": \"a\\\"\xEF\xBF\xBD\"}\n{\"nan\": null}\n");
}

TEST(Log, AFileThatCannotBeWrittenIsNamed) {
  const TemporaryFolder folder;
  EXPECT_EQ(error_of([&] { train::Log log(folder / "no/run.csv"); }),
            "log: cannot write '" + (folder / "no/run.csv") + "': No such file or directory (errno 2)");
}

}  // namespace
}  // namespace weft
