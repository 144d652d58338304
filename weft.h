// The one header of a user's program.
// Place: above all rooms; it includes their public headers.
#pragma once

#include "autograd/anomaly.h"
#include "autograd/function.h"
#include "autograd/grad.h"
#include "autograd/grad_mode.h"
#include "autograd/gradcheck.h"
#include "tensor/tensor.h"
