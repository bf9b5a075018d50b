{{/* Names that are not too long for a label. */}}
{{- define "stator.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 52 | trimSuffix "-" }}
{{- end }}

{{- define "stator.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- else if contains (include "stator.name" .) .Release.Name }}
{{- .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "stator.name" .) | trunc 52 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{/* Labels of every object. `context` is the root, `component` may be left out. */}}
{{- define "stator.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .context.Chart.Name .context.Chart.Version | replace "+" "_" }}
{{ include "stator.selector" . }}
app.kubernetes.io/version: {{ .context.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: stator
app.kubernetes.io/managed-by: {{ .context.Release.Service }}
{{- end }}

{{/* Labels that never change: of pods, and to find them by. */}}
{{- define "stator.selector" -}}
app.kubernetes.io/name: {{ include "stator.name" .context }}
app.kubernetes.io/instance: {{ .context.Release.Name }}
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end }}

{{- define "stator.account.controller" -}}
{{- default (printf "%s-controller" (include "stator.fullname" .)) .Values.serviceAccount.name }}
{{- end }}

{{- define "stator.account.server" -}}
{{- default (printf "%s-server" (include "stator.fullname" .)) .Values.serviceAccount.serverName }}
{{- end }}

{{/* What takes webhooks. */}}
{{- define "stator.receiver" -}}
{{- if .Values.server.enabled }}server{{ else }}controller{{ end }}
{{- end }}

{{- define "stator.image" -}}
{{- with .Values.image }}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ default $.Chart.AppVersion .tag }}{{ end }}
{{- end }}
{{- end }}

{{/* Arguments of both programs. */}}
{{- define "stator.arguments" -}}
- --cluster=in-cluster
- --listen={{ .Values.listen }}:8080
- --probes-listen={{ .Values.listen }}:8081
- --metrics-listen={{ .Values.listen }}:8082
{{- if .Values.monitoring.authorize }}
- --authorize-metrics
{{- end }}
{{- if .Values.tls.secret }}
- --tls-cert=/etc/stator/tls/tls.crt
- --tls-key=/etc/stator/tls/tls.key
{{- end }}
- --log-format={{ .Values.log.format }}
{{- range .Values.watchNamespaces }}
- --watch-namespace={{ . }}
{{- end }}
{{- with int .Values.log.verbosity }}
- -{{ repeat . "v" }}
{{- end }}
{{- end }}

{{/*
A Deployment. `component` names it, `settings` are the values of that part, `arguments` its own, `account` its service
account, `volume` how much room its data takes; none where it keeps none.
*/}}
{{- define "stator.deployment" -}}
{{- $labels := dict "context" .context "component" .component -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "stator.fullname" .context }}-{{ .component }}
  namespace: {{ .context.Release.Namespace }}
  labels:
    {{- include "stator.labels" $labels | nindent 4 }}
spec:
  replicas: {{ .settings.replicas }}
  selector:
    matchLabels:
      {{- include "stator.selector" $labels | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "stator.selector" $labels | nindent 8 }}
        {{- with .settings.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with .settings.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: {{ .account }}
      {{- with .context.Values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .settings.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      # What is under way is finished: a write, and the verdict of a commit.
      terminationGracePeriodSeconds: 20
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        fsGroup: 65532
        seccompProfile: {type: RuntimeDefault}
      containers:
        - name: stator
          image: {{ include "stator.image" .context | quote }}
          imagePullPolicy: {{ .context.Values.image.pullPolicy }}
          args:
            - {{ .component }}
            {{- include "stator.arguments" .context | nindent 12 }}
            {{- with .arguments }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
            {{- with .settings.extraArgs }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          env:
            - name: POD_NAME
              valueFrom: {fieldRef: {fieldPath: metadata.name}}
            - name: POD_NAMESPACE
              valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
            {{- with .settings.extraEnv }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          ports:
            - {name: http, containerPort: 8080, protocol: TCP}
            - {name: probes, containerPort: 8081, protocol: TCP}
            - {name: metrics, containerPort: 8082, protocol: TCP}
            {{- if and .context.Values.web.enabled (eq .component "controller") }}
            - {name: web, containerPort: 8090, protocol: TCP}
            {{- end }}
          startupProbe:
            httpGet: {path: /livez, port: probes}
            periodSeconds: 2
            failureThreshold: 30
          livenessProbe:
            httpGet: {path: /livez, port: probes}
            periodSeconds: 10
            timeoutSeconds: 5
          readinessProbe:
            httpGet: {path: /readyz, port: probes}
            periodSeconds: 5
            timeoutSeconds: 5
          resources:
            {{- toYaml .settings.resources | nindent 12 }}
          securityContext:
            allowPrivilegeEscalation: false
            capabilities: {drop: [ALL]}
            readOnlyRootFilesystem: true
          {{- $tls := .context.Values.tls.secret }}
          {{- $webTls := "" }}{{ $webOidc := "" }}
          {{- if and .context.Values.web.enabled (eq .component "controller") }}{{ $webTls = .context.Values.web.tlsSecret }}{{ $webOidc = ternary .context.Values.web.oidc.secret "" (ne .context.Values.web.oidc.issuer "") }}{{ end }}
          {{- if or .volume $tls $webTls $webOidc .settings.extraVolumeMounts }}
          volumeMounts:
            {{- if .volume }}
            - {name: data, mountPath: /var/lib/stator}
            {{- end }}
            {{- if $tls }}
            - {name: tls, mountPath: /etc/stator/tls, readOnly: true}
            {{- end }}
            {{- if $webTls }}
            - {name: web-tls, mountPath: /etc/stator/web-tls, readOnly: true}
            {{- end }}
            {{- if $webOidc }}
            - {name: web-oidc, mountPath: /etc/stator/web-oidc, readOnly: true}
            {{- end }}
            {{- with .settings.extraVolumeMounts }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          {{- end }}
      {{- if or .volume $tls $webTls $webOidc .settings.extraVolumes }}
      volumes:
        {{- with .volume }}
        # Copies of repositories: what is lost is fetched again.
        - {name: data, emptyDir: {sizeLimit: {{ . }}}}
        {{- end }}
        {{- with $tls }}
        - {name: tls, secret: {secretName: {{ . }}, defaultMode: 0440}}
        {{- end }}
        {{- with $webTls }}
        - {name: web-tls, secret: {secretName: {{ . }}, defaultMode: 0440}}
        {{- end }}
        {{- with $webOidc }}
        - {name: web-oidc, secret: {secretName: {{ . }}, defaultMode: 0440}}
        {{- end }}
        {{- with .settings.extraVolumes }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- end }}
      {{- with .settings.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .settings.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .settings.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- if .settings.topologySpreadConstraints }}
      topologySpreadConstraints:
        {{- toYaml .settings.topologySpreadConstraints | nindent 8 }}
      {{- else if gt (int .settings.replicas) 1 }}
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels:
              {{- include "stator.selector" $labels | nindent 14 }}
      {{- end }}
{{- end }}

{{/* A Service, and a PodDisruptionBudget where there are several pods. */}}
{{- define "stator.around" -}}
{{- $labels := dict "context" .context "component" .component -}}
{{- $name := printf "%s-%s" (include "stator.fullname" .context) .component -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ $name }}
  namespace: {{ .context.Release.Namespace }}
  labels:
    {{- include "stator.labels" $labels | nindent 4 }}
  {{- with .context.Values.service.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  type: {{ .context.Values.service.type }}
  ports:
    {{- if eq .component (include "stator.receiver" .context) }}
    - {name: http, port: {{ .context.Values.service.port }}, targetPort: http, protocol: TCP}
    {{- end }}
    - {name: metrics, port: 8082, targetPort: metrics, protocol: TCP}
    {{- if and .context.Values.web.enabled (eq .component "controller") }}
    - {name: web, port: {{ .context.Values.web.port }}, targetPort: web, protocol: TCP}
    {{- end }}
  selector:
    {{- include "stator.selector" $labels | nindent 4 }}
{{- if gt (int .settings.replicas) 1 }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ $name }}
  namespace: {{ .context.Release.Namespace }}
  labels:
    {{- include "stator.labels" $labels | nindent 4 }}
spec:
  maxUnavailable: {{ .settings.maxUnavailable }}
  selector:
    matchLabels:
      {{- include "stator.selector" $labels | nindent 6 }}
{{- end }}
{{- end }}
