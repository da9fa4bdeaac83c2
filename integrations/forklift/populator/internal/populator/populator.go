// Package populator stands in for Forklift's package of this path: the interfaces that a storage
// provider implements and the values that they pass, restated, so that the compiler checks the provider
// against them without a work tree of Forklift.
package populator

// MappingContext goes from EnsureClonnerIgroup to the calls behind it.
type MappingContext map[string]any

// PersistentVolume is what the populator knows of the target.
type PersistentVolume struct {
	Name             string
	VolumeHandle     string
	VolumeAttributes map[string]string
}

// LUN is a volume of the array.
type LUN struct {
	Name                string
	NAA                 string
	SerialNumber        string
	IQN                 string
	ProviderID          string
	VolumeHandle        string
	LDeviceID           string
	StorageSerialNumber string
	Protocol            string
}

// StorageArrayInfo goes into the labels of metrics.
type StorageArrayInfo struct {
	Vendor  string
	Product string
	Model   string
	Version string
}

// VMDKCapable is what every storage provider implements.
type VMDKCapable interface {
	EnsureClonnerIgroup(initiatorGroup string, clonnerIqn []string) (MappingContext, error)
	MapTarget(targetLUN LUN, context MappingContext) (LUN, error)
	UnmapTarget(targetLUN LUN, context MappingContext) error
	Map(initatorGroup string, targetLUN LUN, context MappingContext) (LUN, error)
	UnMap(initatorGroup string, targetLUN LUN, context MappingContext) error
	CurrentMappedGroups(targetLUN LUN, context MappingContext) ([]string, error)
	ResolvePVToLUN(persistentVolume PersistentVolume) (LUN, error)
}

// StorageArrayInfoProvider is optional.
type StorageArrayInfoProvider interface {
	GetStorageArrayInfo() StorageArrayInfo
}
