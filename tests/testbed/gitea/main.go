// A real forge in one binary, for tests of fetching, webhooks, commit statuses and pull requests. Built from the Go
// module proxy alone.
package main

import (
	"os"
	"time"

	"code.gitea.io/gitea/cmd"
	"code.gitea.io/gitea/modules/log"
	"code.gitea.io/gitea/modules/setting"
)

// The release in go.mod: Gitea takes its own version from whoever builds it.
const version = "1.26.0"

func main() {
	setting.AppVer = version
	setting.AppStartTime = time.Now().UTC()
	// Errors are printed by the program itself, which gives the exit code too.
	_ = cmd.RunMainApp(cmd.NewMainApp(cmd.AppVersion{Version: version}), os.Args...)
	// Lines still in the logger's queue would be lost.
	log.GetManager().Close()
}
