package initiator

import (
	"errors"
	"io/fs"
	"strconv"
	"strings"
)

const (
	deviceFolder = "/sys/class/scsi_device"
	hostFolder   = "/sys/class/scsi_host"

	// flatSpace are the address method bits of LUN numbers from 256 (SAM-5 4.7.7.3); Linux keeps them
	// in its number.
	flatSpace = 0x4000
	// peripheralMax is the largest number that the peripheral method addresses (SAM-5 4.7.7.2).
	peripheralMax = 255
)

// disk is a SCSI disk of the kernel.
type disk struct {
	// address is HOST:CHANNEL:TARGET:LUN.
	address string
	// name is that of the block device, for example sdb.
	name string
}

func (d disk) file() string { return "/dev/" + d.name }

func (d disk) attribute(name string) string {
	return deviceFolder + "/" + d.address + "/device/" + name
}

func (d disk) host() string {
	host, _, _ := strings.Cut(d.address, ":")
	return host
}

// lun is the kernel's number of the disk's LUN.
func (d disk) lun() string { return d.address[strings.LastIndexByte(d.address, ':')+1:] }

// kernelLUN is the number by which Linux knows a LUN.
func kernelLUN(lun int) string {
	if lun > peripheralMax {
		lun |= flatSpace
	}
	return strconv.Itoa(lun)
}

// identity is the NAA identifier that a disk told last; empty if it told none.
func (i *Initiator) identity(disk disk) string {
	text, err := i.system.Read(disk.attribute("wwid"))
	if err != nil {
		return ""
	}
	return strings.ToLower(text)
}

// scan has the kernel look for one LUN of a session, by the kernel's number.
func (i *Initiator) scan(session session, lun string) error {
	return i.system.Write(hostFolder+"/host"+session.host+"/scan", "0 0 "+lun)
}

// disksAt are the disks of a LUN of a session, by the kernel's number: one, or none yet.
func (i *Initiator) disksAt(session session, lun string) ([]disk, error) {
	disks, err := i.disksOn(session.host)
	if err != nil {
		return nil, err
	}
	var found []disk
	for _, disk := range disks {
		if disk.lun() == lun {
			found = append(found, disk)
		}
	}
	return found, nil
}

// disksOn are all disks of a SCSI host.
func (i *Initiator) disksOn(host string) ([]disk, error) {
	all, err := i.disks()
	var found []disk
	for _, disk := range all {
		if disk.host() == host {
			found = append(found, disk)
		}
	}
	return found, err
}

// disksOf are the disks that have an identifier.
func (i *Initiator) disksOf(naa string) ([]disk, error) {
	all, err := i.disks()
	var found []disk
	for _, disk := range all {
		if i.identity(disk) == naa {
			found = append(found, disk)
		}
	}
	return found, err
}

// disks are all SCSI devices that have a block device.
func (i *Initiator) disks() ([]disk, error) {
	addresses, err := i.system.List(deviceFolder)
	if err != nil {
		return nil, err
	}
	var found []disk
	for _, address := range addresses {
		names, err := i.system.List(deviceFolder + "/" + address + "/device/block")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, name := range names {
			found = append(found, disk{address: address, name: name})
		}
	}
	return found, nil
}
