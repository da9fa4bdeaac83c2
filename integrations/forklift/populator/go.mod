// The module has the path of Forklift's populator, so that the files of internal/gantry compile here as they do there.
module github.com/kubev2v/forklift/cmd/vsphere-copy-offload-populator

go 1.26.0

require (
	gantry.io/go v0.0.0-00010101000000-000000000000
	k8s.io/klog/v2 v2.130.1
)

require (
	github.com/go-logr/logr v1.4.1 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace gantry.io/go => ../../go
