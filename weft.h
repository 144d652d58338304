// The one header a user includes.
// Needs every floor; brings no private dependency with it.
#pragma once

#include "tensor/base/dtype.h"
