// Package iscsitest is an iSCSI initiator (RFC 7143) that logs in and asks a LUN for its NAA identifier,
// so that tests see over the wire which volume a node reaches under a number.
package iscsitest

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

const (
	headerLength = 48

	opcodeCommand       = 0x01
	opcodeLogin         = 0x43 // immediate
	opcodeLoginResponse = 0x23
	opcodeResponse      = 0x21
	opcodeDataIn        = 0x25

	// loginFlags: transit from operational negotiation to the full feature phase (RFC 7143 11.12).
	loginFlags = 0x87
	// commandFlags: final, read, simple task (RFC 7143 11.3).
	commandFlags = 0xc1
	// inquiryLength is the allocation length in bytes.
	inquiryLength = 0xff
	// designatorNAA is the designator type (SPC-4 7.8.6).
	designatorNAA = 3

	timeout = 30 * time.Second
)

// ErrNoLUN says that nothing answers under the number.
var ErrNoLUN = errors.New("no volume has this LUN number")

// Identify logs in to a target as an initiator, and returns the NAA identifier of a LUN.
func Identify(portal, target, initiator string, lun int) (string, error) {
	connection, err := net.DialTimeout("tcp", portal, timeout)
	if err != nil {
		return "", err
	}
	defer connection.Close()
	if err := connection.SetDeadline(time.Now().Add(timeout)); err != nil {
		return "", err
	}
	if err := logIn(connection, target, initiator); err != nil {
		return "", err
	}
	page, err := inquire(connection, lun)
	if err != nil {
		return "", err
	}
	return naaOf(page)
}

func logIn(connection net.Conn, target, initiator string) error {
	keys := "InitiatorName=" + initiator + "\x00SessionType=Normal\x00TargetName=" + target +
		"\x00HeaderDigest=None\x00DataDigest=None\x00InitialR2T=Yes\x00ImmediateData=No\x00"
	for range 4 {
		header := make([]byte, headerLength)
		header[0], header[1] = opcodeLogin, loginFlags
		copy(header[8:14], []byte{0x80, 0, 0, byte(time.Now().UnixNano() >> 16), byte(time.Now().UnixNano() >> 8), 1})
		binary.BigEndian.PutUint32(header[16:], 1)
		if err := send(connection, header, []byte(keys)); err != nil {
			return err
		}
		answer, _, err := receive(connection)
		if err != nil {
			return err
		}
		if answer[0] != opcodeLoginResponse || answer[36] != 0 {
			return fmt.Errorf("login refused: class %d, detail %d", answer[36], answer[37])
		}
		if answer[1]&0x83 == 0x83 {
			return nil
		}
		keys = ""
	}
	return errors.New("the login does not come to an end")
}

func inquire(connection net.Conn, lun int) ([]byte, error) {
	header := make([]byte, headerLength)
	header[0], header[1] = opcodeCommand, commandFlags
	number := uint16(lun)
	if lun > 255 {
		number |= 0x4000
	}
	binary.BigEndian.PutUint16(header[8:], number)
	binary.BigEndian.PutUint32(header[16:], 2)
	binary.BigEndian.PutUint32(header[20:], inquiryLength)
	copy(header[32:], []byte{0x12, 1, 0x83, 0, inquiryLength, 0})
	if err := send(connection, header, nil); err != nil {
		return nil, err
	}
	var data []byte
	for {
		answer, segment, err := receive(connection)
		if err != nil {
			return nil, err
		}
		switch answer[0] & 0x3f {
		case opcodeDataIn:
			data = append(data, segment...)
			if answer[1]&1 == 0 {
				continue
			}
			fallthrough
		case opcodeResponse:
			if answer[3] != 0 || len(data) == 0 || data[0]>>5 != 0 {
				return nil, ErrNoLUN
			}
			return data, nil
		}
	}
}

func naaOf(page []byte) (string, error) {
	for rest := page[min(4, len(page)):]; len(rest) >= 4; {
		length := int(rest[3])
		if len(rest) < 4+length {
			break
		}
		if rest[1]&0x0f == designatorNAA {
			return "naa." + hex.EncodeToString(rest[4:4+length]), nil
		}
		rest = rest[4+length:]
	}
	return "", errors.New("VPD page 83h has no NAA identifier")
}

func send(connection net.Conn, header, data []byte) error {
	header[5], header[6], header[7] = byte(len(data)>>16), byte(len(data)>>8), byte(len(data))
	padding := make([]byte, (4-len(data)%4)%4)
	_, err := connection.Write(bytes.Join([][]byte{header, data, padding}, nil))
	return err
}

func receive(connection net.Conn) ([]byte, []byte, error) {
	header := make([]byte, headerLength)
	if _, err := io.ReadFull(connection, header); err != nil {
		return nil, nil, err
	}
	length := int(header[5])<<16 | int(header[6])<<8 | int(header[7])
	data := make([]byte, (length+3)/4*4)
	if _, err := io.ReadFull(connection, data); err != nil {
		return nil, nil, err
	}
	return header, data[:length], nil
}
