package iscsitest

import (
	"encoding/binary"
	"fmt"
	"net"
	"time"
)

const (
	opcodeDataOut    = 0x05
	opcodeReadyToGet = 0x31

	// writeFlags: final, write, simple task (RFC 7143 11.3).
	writeFlags = 0xa1
	// segmentMax is the MaxRecvDataSegmentLength that every target has (RFC 7143 13.12).
	segmentMax = 8192
	// writeMax is the data of one command.
	writeMax = 64 << 10
	// unitAttentionsMax bounds what a new session is told before its first command succeeds.
	unitAttentionsMax = 8
	sectorLength      = 512
)

// Disk is a session that writes to one LUN with blocks of 512 bytes, a command at a time.
type Disk struct {
	connection net.Conn
	lun        int
	sequence   uint32
}

// Open logs in to a target as an initiator.
func Open(portal, target, initiator string, lun int) (*Disk, error) {
	connection, err := net.DialTimeout("tcp", portal, timeout)
	if err != nil {
		return nil, err
	}
	if err := connection.SetDeadline(time.Now().Add(timeout)); err != nil {
		return nil, err
	}
	if err := logIn(connection, target, initiator); err != nil {
		connection.Close()
		return nil, err
	}
	return &Disk{connection: connection, lun: lun}, nil
}

// Close ends the connection.
func (d *Disk) Close() { d.connection.Close() }

// Write writes at a byte offset, both in multiples of 512.
func (d *Disk) Write(offset int64, data []byte) error {
	for len(data) > 0 {
		length := min(len(data), writeMax)
		if err := d.run(cdb16(0x8a, 0, offset, int64(length)), data[:length]); err != nil {
			return err
		}
		offset, data = offset+int64(length), data[length:]
	}
	return nil
}

// Unmap deallocates a range: WRITE SAME (16) of zeros with UNMAP.
func (d *Disk) Unmap(offset, length int64) error {
	return d.run(cdb16(0x93, 0x08, offset, length), make([]byte, sectorLength))
}

func cdb16(operation, flags byte, offset, length int64) []byte {
	cdb := make([]byte, 16)
	cdb[0], cdb[1] = operation, flags
	binary.BigEndian.PutUint64(cdb[2:], uint64(offset/sectorLength))
	binary.BigEndian.PutUint32(cdb[10:], uint32(length/sectorLength))
	return cdb
}

func (d *Disk) run(cdb, data []byte) error {
	var status byte
	for range unitAttentionsMax {
		var err error
		if status, err = d.command(cdb, data); err != nil || status == 0 {
			return err
		}
	}
	return fmt.Errorf("command %#x ended with status %#x", cdb[0], status)
}

// command sends one command and its data as the target asks for them; returns the SCSI status.
func (d *Disk) command(cdb, data []byte) (byte, error) {
	header := make([]byte, headerLength)
	header[0], header[1] = opcodeCommand, writeFlags
	header[9] = byte(d.lun)
	binary.BigEndian.PutUint32(header[16:], d.sequence+2)
	binary.BigEndian.PutUint32(header[20:], uint32(len(data)))
	binary.BigEndian.PutUint32(header[24:], d.sequence)
	copy(header[32:], cdb)
	d.sequence++
	if err := send(d.connection, header, nil); err != nil {
		return 0, err
	}
	for {
		answer, _, err := receive(d.connection)
		if err != nil {
			return 0, err
		}
		switch answer[0] & 0x3f {
		case opcodeReadyToGet:
			if err := d.sendData(answer, data); err != nil {
				return 0, err
			}
		case opcodeResponse:
			return answer[3], nil
		}
	}
}

// sendData answers one R2T.
func (d *Disk) sendData(asked, data []byte) error {
	offset := binary.BigEndian.Uint32(asked[40:])
	end := offset + binary.BigEndian.Uint32(asked[44:])
	for number := uint32(0); offset < end; number++ {
		length := min(end-offset, segmentMax)
		header := make([]byte, headerLength)
		header[0] = opcodeDataOut
		if offset+length == end {
			header[1] = 0x80
		}
		copy(header[8:], asked[8:24]) // LUN, task and transfer tags
		binary.BigEndian.PutUint32(header[36:], number)
		binary.BigEndian.PutUint32(header[40:], offset)
		if err := send(d.connection, header, data[offset:offset+length]); err != nil {
			return err
		}
		offset += length
	}
	return nil
}
