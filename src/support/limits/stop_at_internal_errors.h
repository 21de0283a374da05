// Tests want to see what is wrong with us; users want an answer, in a plainer form where one fails.
#pragma once

namespace xyntra {

// Where the variable XYNTRA_STOP_AT_INTERNAL_ERRORS is set, a broken invariant ends the run and nothing serves instead.
bool stops_at_internal_errors();

}  // namespace xyntra
