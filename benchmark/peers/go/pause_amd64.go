// SPDX-License-Identifier: BSL-1.0

package main

// Tells the core that this is a spin loop.
func pause()
