// SPDX-License-Identifier: BSL-1.0

//go:build !amd64

package main

func pause() {}
