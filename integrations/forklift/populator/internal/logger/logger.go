// Package logger stands in for Forklift's package of this path: named loggers of klog.
package logger

import "k8s.io/klog/v2"

// New returns the logger of a storage provider.
func New(provider string) klog.Logger {
	return klog.Background().WithName(provider)
}
