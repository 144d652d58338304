// The one header of a user's program.
// Place: above all rooms; it includes their public headers.
#pragma once

#include "tensor/tensor.h"
