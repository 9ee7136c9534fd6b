#pragma once
#include "../mirage_gate_host.h"
