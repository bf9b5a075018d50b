// kubectl, as its own repository has it, for tests that do what a page tells a reader to do. It is not a tool that go.mod
// could name: its main package lies in Kubernetes' repository, which is no module to depend on.
package main

import (
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

func main() {
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
}
