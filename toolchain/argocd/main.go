// The three programs of Argo CD that the local stack runs, in one binary that goes by the name it is called with.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	controller "github.com/argoproj/argo-cd/v3/cmd/argocd-application-controller/commands"
	askpass "github.com/argoproj/argo-cd/v3/cmd/argocd-git-ask-pass/commands"
	reposerver "github.com/argoproj/argo-cd/v3/cmd/argocd-repo-server/commands"
)

var programs = map[string]func() *cobra.Command{
	"argocd-application-controller": controller.NewCommand,
	"argocd-repo-server":            reposerver.NewCommand,
	// The repo server has git ask this one for passwords.
	"argocd": askpass.NewCommand,
}

func main() {
	name := filepath.Base(os.Args[0])
	program, known := programs[name]
	if !known {
		fmt.Fprintf(os.Stderr, "%s is none of Argo CD's programs: call this binary by a link with the name of one\n", name)
		os.Exit(2)
	}
	if err := program().Execute(); err != nil {
		os.Exit(1)
	}
}
