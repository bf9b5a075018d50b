// Starts `stator lsp` for files of models. All that it knows is in the program.
"use strict";

const { commands, workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

function startClient() {
  const settings = workspace.getConfiguration("stator");
  const policies = settings.get("policies");
  const server = {
    command: settings.get("path"),
    args: ["lsp", ...(policies ? ["--policies", policies] : [])],
  };
  const names = ["model.yaml", "model.*.yaml", "stator.yaml"];
  const documentSelector = names.map((name) => ({ scheme: "file", pattern: `**/${name}` }));
  client = new LanguageClient("stator", "stator", server, { documentSelector });
  return client.start();
}

exports.activate = async (context) => {
  const restart = async () => {
    await client?.dispose();
    await startClient();
  };
  context.subscriptions.push(commands.registerCommand("stator.restart", restart));
  await startClient();
};

exports.deactivate = () => client?.stop();
