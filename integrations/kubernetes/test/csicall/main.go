// Command csicall calls one method of a CSI socket: requests and responses are JSON in the names of
// csi.proto, and the exit status is the code of gRPC. Tests use it where no Go program of theirs runs.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// callTimeout is the time for one call, longer than the two minutes that the driver gives itself.
const callTimeout = 150 * time.Second

// usageStatus is none of gRPC's codes.
const usageStatus = 64

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "csicall SOCKET METHOD JSON")
		os.Exit(usageStatus)
	}
	answer, err := call(os.Args[1], os.Args[2], os.Args[3])
	if err != nil {
		fmt.Fprintln(os.Stderr, status.Convert(err).Message())
		os.Exit(int(status.Code(err)))
	}
	fmt.Println(answer)
}

func call(socket, name, text string) (string, error) {
	method := find(name)
	if method == nil {
		return "", fmt.Errorf("csi.proto has no method %s", name)
	}
	request, answer := dynamicpb.NewMessage(method.Input()), dynamicpb.NewMessage(method.Output())
	if err := protojson.Unmarshal([]byte(text), request); err != nil {
		return "", err
	}
	connection, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		return "", err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	path := fmt.Sprintf("/%s/%s", method.Parent().FullName(), method.Name())
	if err := connection.Invoke(ctx, path, request, answer); err != nil {
		return "", err
	}
	return protojson.MarshalOptions{EmitUnpopulated: true}.Format(answer), nil
}

// find looks for a method in all services of CSI; nil if there is none.
func find(name string) protoreflect.MethodDescriptor {
	services := csi.File_csi_proto.Services()
	for index := range services.Len() {
		if method := services.Get(index).Methods().ByName(protoreflect.Name(name)); method != nil {
			return method
		}
	}
	return nil
}
