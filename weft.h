// The one header of a user's program.
// Place: above all rooms; it includes their public headers.
#pragma once

#include "autograd/anomaly.h"
#include "autograd/checkpoint.h"
#include "autograd/function.h"
#include "autograd/grad.h"
#include "autograd/grad_mode.h"
#include "autograd/gradcheck.h"
#include "nn/activation.h"
#include "nn/clip_grad.h"
#include "nn/container.h"
#include "nn/functional.h"
#include "nn/init.h"
#include "nn/linear.h"
#include "nn/loss.h"
#include "nn/norm.h"
#include "nn/optim/adam.h"
#include "nn/optim/rmsprop.h"
#include "nn/optim/scheduler.h"
#include "nn/optim/sgd.h"
#include "tensor/state_epoch.h"
#include "tensor/tensor.h"
