// SPDX-License-Identifier: BSL-1.0
//
// Peers in Go. benchmark/run --languages builds and runs them. Only the standard library is used.
module peers

go 1.22
